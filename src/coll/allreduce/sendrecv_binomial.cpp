// Binomial allreduce over two-sided messages, reduce to rank 0 and broadcast, as MVICH does it: the
// vector is first copied into the receive buffer, every child's is received into memory of its own
// and folded.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_sendrecv_binomial(Collective& c, PacketSize p) {
  const auto packet = static_cast<std::size_t>(p.packet);
  const DegreeTree up(c.rank(), c.size(), 1);
  const BinomialTree down(c.rank(), c.size());
  Temporary incoming;
  Completion sent;
  co_await incoming.allocate(c, c.call.bytes);
  co_await c.enter(true);
  c.place(c.call.recv, c.call.send, c.call.bytes);
  for (int step = 0; step < up.steps(); ++step) {
    if (up.child(step, 1) < 0) continue;
    const Packets packets{c.call.bytes, packet, step * Inbox::kBcastBlocks};
    co_await receive_packets(c, packets, up.child(step, 1), incoming.memory());
    c.fold(c.call.recv, incoming.memory(), c.call.recv, c.call.bytes);
  }
  if (up.parent() >= 0) {
    const Packets packets{c.call.bytes, packet, up.block() * Inbox::kBcastBlocks};
    co_await send_packets(c, packets, up.parent(), c.call.recv, &sent);
    // The result will be received into the buffer that is being sent from.
    co_await c.completed(sent);
  }
  const Packets result{c.call.bytes, packet, c.bcast_block(0)};
  if (down.parent() >= 0) co_await receive_packets(c, result, down.parent(), c.call.recv);
  for (int child = 0; down.child(child) >= 0; ++child) {
    co_await send_packets(c, result, down.child(child), c.call.recv, &sent);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

static const char* fits(const Shape& s, PacketSize p) { return fits_packets(s, p.packet); }

namespace algorithm {

const Algorithm allreduce_sendrecv_binomial = {
    .coll = Coll::allreduce,
    .name = "sendrecv_binomial",
    .run = with_parameters<tutti::allreduce_sendrecv_binomial>,
    .restriction_of = with_parameters<fits>,
    .parameters = kPacketSize,
    .source = "MVICH's send/receive, which VIA-2003 compares with",
};

}  // namespace algorithm
}  // namespace tutti
