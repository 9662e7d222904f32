// Binomial broadcast over two-sided messages: what MVICH does, in packets of 1 KB (VIA-2003,
// section 6). Every rank receives the whole message into the user's buffer before it sends it on
// from there.
#include "coll/algorithms.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task bcast_sendrecv_binomial(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const int size = t.size();
  const BinomialTree tree((t.rank() - call.root + size) % size, size);
  const auto member = [&](int other) { return (other + call.root) % size; };
  const Packets packets{call.bytes, static_cast<std::size_t>(p.value[0]),
                        Inbox::bcast_block(size, 0)};
  Completion sent;
  co_await t.inbox().enter(k, false);
  if (tree.parent() >= 0) co_await receive_packets(t, k, packets, member(tree.parent()), call.recv);
  for (int child = 0; tree.child(child) >= 0; ++child) {
    co_await send_packets(t, k, packets, member(tree.child(child)), call.recv, &sent);
  }
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
