#include "coll/pattern/dissemination.hpp"

#include <algorithm>

#include "coll/pattern/direct.hpp"

namespace tutti {

Task collect_direct(Collective& c, void* vector, std::size_t bytes,
                    const PlacementOf& placement) noexcept {
  const int size = c.size();
  Window window(c);
  Completion sent;
  co_await window.open(vector, bytes);
  co_await c.enter(true);
  for (int have = 1; have < size; have *= 2) co_await window.invite(c, (c.rank() + have) % size);
  for (int have = 1; have < size; have *= 2) {
    const int to = (c.rank() + size - have) % size;
    co_await c.mailed(to, kInvited);
    for (int i = 0; i < std::min(have, size - have);) {
      // As many blocks at once as follow each other.
      Placement run = placement((c.rank() + i) % size);
      for (++i; i < std::min(have, size - have); ++i) {
        const Placement next = placement((c.rank() + i) % size);
        if (next.begin != run.begin + run.bytes) break;
        run.bytes += next.bytes;
      }
      co_await put_direct(c, to, run.begin, at(vector, run.begin), run.bytes, &sent);
    }
    co_await c.mail(to, kArrived);
    co_await c.mailed((c.rank() + have) % size, kArrived);
  }
  co_await c.completed(sent);
  co_return Status::success();
}

Task collect_eager(Collective& c, void* vector, std::size_t bytes,
                   const PlacementOf& placement) noexcept {
  const int size = c.size();
  Temporary known;  // blocks of this rank, the next one, ...
  Completion sent;
  co_await known.allocate(c, bytes);
  std::size_t filled = 0;
  const auto copy_in = [&](int member) {
    const Placement block = placement(member);
    c.place(at(known.memory(), filled), at(vector, block.begin), block.bytes);
    filled += block.bytes;
  };
  const auto bytes_of = [&](int first, int count) {
    std::size_t total = 0;
    for (int i = 0; i < count; ++i) total += placement((first + i) % size).bytes;
    return total;
  };
  copy_in(c.rank());
  co_await c.enter(true);
  for (int round = 0, have = 1; have < size; ++round, have *= 2) {
    const int count = std::min(have, size - have);
    const int from = (c.rank() + have) % size;
    co_await c.put((c.rank() + size - have) % size, round, known.memory(),
                   bytes_of(c.rank(), count), &sent);
    co_await c.arrival(round, from);
    const std::byte* data = c.data(round, bytes_of(from, count));
    for (int i = 0; i < count; ++i) {
      const Placement block = placement((from + i) % size);
      c.place(at(vector, block.begin), data, block.bytes);
      data += c.team.elided() ? 0 : block.bytes;
      copy_in((from + i) % size);
    }
  }
  co_await c.completed(sent);
  co_return Status::success();
}

}  // namespace tutti
