// The classical allgathers over two-sided messages, which the papers compare with (Thakur,
// Rabenseifner and Gropp 2005, section 4.1): recursive doubling, Bruck's, and around a ring.
#include <algorithm>
#include <bit>

#include "coll/algorithms.hpp"
#include "coll/pattern/packets.hpp"

namespace tutti {
namespace {

std::byte* block_at(const Call& call, int member) noexcept {
  return at(call.recv, static_cast<std::size_t>(member) * call.bytes);
}

}  // namespace

// Step s: members 2^s apart exchange the 2^s blocks that they have. Powers of two only.
Task allgather_sendrecv_recursive_doubling(Team& t, const Call& call, const Ticket& k,
                                           const Parameters& p) {
  const auto packet = static_cast<std::size_t>(p.value[0]);
  Completion sent;
  co_await t.inbox().enter(k, true);
  place(t, block_at(call, t.rank()), call.send, call.bytes);
  for (int step = 0; (1 << step) < t.size(); ++step) {
    const int have = 1 << step;
    const int other = t.rank() ^ have;
    const Packets packets{static_cast<std::size_t>(have) * call.bytes, packet,
                          step * Inbox::kBcastBlocks};
    co_await send_packets(t, k, packets, other, block_at(call, t.rank() / have * have), &sent);
    co_await receive_packets(t, k, packets, other, block_at(call, other / have * have));
  }
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

// Step s: the first 2^s blocks, counted from the own one, go 2^s members down. At the end they are
// turned round.
Task allgather_sendrecv_bruck(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const auto packet = static_cast<std::size_t>(p.value[0]);
  const int size = t.size();
  Temporary turned;  // block i is that of member rank + i
  Completion sent;
  co_await turned.allocate(t, static_cast<std::size_t>(size) * call.bytes);
  co_await t.inbox().enter(k, true);
  const auto turned_at = [&](int i) {
    return at(turned.memory(), static_cast<std::size_t>(i) * call.bytes);
  };
  place(t, turned_at(0), call.send, call.bytes);
  for (int step = 0; (1 << step) < size; ++step) {
    const int have = 1 << step;
    const int count = std::min(have, size - have);
    const Packets packets{static_cast<std::size_t>(count) * call.bytes, packet,
                          step * Inbox::kBcastBlocks};
    co_await send_packets(t, k, packets, (t.rank() - have + size) % size, turned_at(0), &sent);
    co_await receive_packets(t, k, packets, (t.rank() + have) % size, turned_at(have));
  }
  const int above = size - t.rank();  // blocks from the own one to the last member's
  place(t, block_at(call, t.rank()), turned_at(0), static_cast<std::size_t>(above) * call.bytes);
  place(t, block_at(call, 0), turned_at(above), static_cast<std::size_t>(t.rank()) * call.bytes);
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

// Step s: what came last goes on to the right.
Task allgather_sendrecv_ring(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const auto packet = static_cast<std::size_t>(p.value[0]);
  const int size = t.size();
  const int right = (t.rank() + 1) % size, left = (t.rank() - 1 + size) % size;
  Completion sent;
  co_await t.inbox().enter(k, true);
  place(t, block_at(call, t.rank()), call.send, call.bytes);
  for (int step = 0; step + 1 < size; ++step) {
    const int passed_on = (t.rank() - step + size) % size, next = (passed_on - 1 + size) % size;
    const Packets packets{call.bytes, packet, step * static_cast<int>(chunks(call.bytes, packet))};
    co_await send_packets(t, k, packets, right, block_at(call, passed_on), &sent);
    co_await receive_packets(t, k, packets, left, block_at(call, next));
  }
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
