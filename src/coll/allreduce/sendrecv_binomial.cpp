// Binomial allreduce over two-sided messages, reduce to rank 0 and broadcast, as MVICH does it: the
// vector is first copied into the receive buffer, every child's is received into memory of its own
// and folded.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task allreduce_sendrecv_binomial(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const auto packet = static_cast<std::size_t>(p.value[0]);
  const DegreeTree up(t.rank(), t.size(), 1);
  const BinomialTree down(t.rank(), t.size());
  Temporary incoming;
  Completion sent;
  co_await incoming.allocate(t, call.bytes);
  co_await t.inbox().enter(k, true);
  place(t, call.recv, call.send, call.bytes);
  for (int step = 0; step < up.steps(); ++step) {
    if (up.child(step, 1) < 0) continue;
    const Packets packets{call.bytes, packet, step * Inbox::kBcastBlocks};
    co_await receive_packets(t, k, packets, up.child(step, 1), incoming.memory());
    fold_bytes(t, *call.reduction, call.recv, incoming.memory(), call.recv, call.bytes);
  }
  if (up.parent() >= 0) {
    const Packets packets{call.bytes, packet, up.block() * Inbox::kBcastBlocks};
    co_await send_packets(t, k, packets, up.parent(), call.recv, &sent);
    // The result will be received into the buffer that is being sent from.
    co_await t.engine().completed(sent, t.membership());
  }
  const Packets result{call.bytes, packet, Inbox::bcast_block(t.size(), 0)};
  if (down.parent() >= 0) co_await receive_packets(t, k, result, down.parent(), call.recv);
  for (int child = 0; down.child(child) >= 0; ++child) {
    co_await send_packets(t, k, result, down.child(child), call.recv, &sent);
  }
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
