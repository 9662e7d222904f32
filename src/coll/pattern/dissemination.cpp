#include "coll/pattern/dissemination.hpp"

#include <algorithm>

#include "coll/pattern/direct.hpp"

namespace tutti {

Task collect_direct(Team& t, const Ticket& k, void* vector, std::size_t bytes,
                    const PlacementOf& placement) noexcept {
  const int size = t.size();
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  co_await window.open(vector, bytes);
  co_await inbox.enter(k, true);
  for (int have = 1; have < size; have *= 2) co_await window.invite(k, (t.rank() + have) % size);
  for (int have = 1; have < size; have *= 2) {
    const int to = (t.rank() + size - have) % size;
    co_await inbox.mailed(k, to, kInvited);
    for (int i = 0; i < std::min(have, size - have);) {
      // As many blocks at once as follow each other.
      Placement run = placement((t.rank() + i) % size);
      for (++i; i < std::min(have, size - have); ++i) {
        const Placement next = placement((t.rank() + i) % size);
        if (next.begin != run.begin + run.bytes) break;
        run.bytes += next.bytes;
      }
      co_await put_direct(t, k, to, run.begin, at(vector, run.begin), run.bytes, &sent);
    }
    co_await inbox.mail(k, to, kArrived, nullptr);
    co_await inbox.mailed(k, (t.rank() + have) % size, kArrived);
  }
  co_await all_sent(t, sent);
  co_return Status::success();
}

Task collect_eager(Team& t, const Ticket& k, void* vector, std::size_t bytes,
                   const PlacementOf& placement) noexcept {
  const int size = t.size();
  Inbox& inbox = t.inbox();
  Temporary known;  // blocks of this rank, the next one, ...
  Completion sent;
  co_await known.allocate(t, bytes);
  std::size_t filled = 0;
  const auto copy_in = [&](int member) {
    const Placement block = placement(member);
    place(t, at(known.memory(), filled), at(vector, block.begin), block.bytes);
    filled += block.bytes;
  };
  const auto bytes_of = [&](int first, int count) {
    std::size_t total = 0;
    for (int i = 0; i < count; ++i) total += placement((first + i) % size).bytes;
    return total;
  };
  copy_in(t.rank());
  co_await inbox.enter(k, true);
  for (int round = 0, have = 1; have < size; ++round, have *= 2) {
    const int count = std::min(have, size - have);
    const int from = (t.rank() + have) % size;
    co_await inbox.put(k, (t.rank() + size - have) % size, round, known.memory(),
                       bytes_of(t.rank(), count), &sent);
    co_await inbox.arrival(k, round, from);
    const std::byte* data = inbox.data(k, round, bytes_of(from, count));
    for (int i = 0; i < count; ++i) {
      const Placement block = placement((from + i) % size);
      place(t, at(vector, block.begin), data, block.bytes);
      data += t.elided() ? 0 : block.bytes;
      copy_in((from + i) % size);
    }
  }
  co_await all_sent(t, sent);
  co_return Status::success();
}

}  // namespace tutti
