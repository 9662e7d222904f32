// Degree-k RDMA-based allreduce: degree-k reduce to rank 0, then binomial broadcast (VIA-2003,
// section 4.2). `down`: children of a step of the broadcast, where 1 is the binomial tree.
//
// A child puts its vector into the parent's block of its own number, in one piece, filled from the
// bottom, the allreduce counter behind it; the parent folds in ascending rank order. No
// notification is needed within the collective: nobody has the result before everybody has
// contributed.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/reduce_tree.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task allreduce_degree_k(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Inbox& inbox = t.inbox();
  const BroadcastTree down(t.rank(), t.size(), static_cast<int>(p.value[1]));
  const int result = Inbox::bcast_block(t.size(), 0);
  Completion sent;
  co_await inbox.enter(k, true);
  // The vector is folded in the receive buffer; the result goes down from there (as in the paper).
  co_await reduce_up_tree(t, call, k, static_cast<int>(p.value[0]), call.recv, &sent);
  const void* data = call.recv;
  if (down.parent() >= 0) {
    co_await inbox.arrival(k, result, down.parent());
    data = inbox.data(k, result, call.bytes);
  }
  for (int child = 0; down.child(child) >= 0; ++child) {
    co_await inbox.put(k, down.child(child), result, data, call.bytes, &sent);
  }
  // The own contribution may still be on its way out of the receive buffer.
  co_await t.engine().completed(sent, t.membership());
  if (down.parent() >= 0) place(t, call.recv, data, call.bytes);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
