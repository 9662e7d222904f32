// Binomial broadcast over two-sided messages: what MVICH does, in packets of 1 KB (VIA-2003,
// section 6). Every rank receives the whole message into the user's buffer before it sends it on
// from there.
#include "coll/algorithms.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_sendrecv_binomial(Collective& c, PacketSize p) {
  const int size = c.size();
  const BinomialTree tree((c.rank() - c.call.root + size) % size, size);
  const auto member = [&](int other) { return (other + c.call.root) % size; };
  const Packets packets{c.call.bytes, static_cast<std::size_t>(p.packet),
                        Inbox::bcast_block(size, 0)};
  Completion sent;
  co_await c.enter(false);
  if (tree.parent() >= 0) co_await receive_packets(c, packets, member(tree.parent()), c.call.recv);
  for (int child = 0; tree.child(child) >= 0; ++child) {
    co_await send_packets(c, packets, member(tree.child(child)), c.call.recv, &sent);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

static const char* fits(const Shape& s, PacketSize p) { return fits_inbox_blocks(s, p.packet); }

namespace algorithm {

const Algorithm bcast_sendrecv_binomial = {
    .coll = Coll::bcast,
    .name = "sendrecv_binomial",
    .run = with_parameters<tutti::bcast_sendrecv_binomial>,
    .restriction_of = with_parameters<fits>,
    .parameters = kPacketSize,
    .source = "MVICH's send/receive, which VIA-2003 compares with",
};

}  // namespace algorithm
}  // namespace tutti
