// Degree-k RDMA-based allreduce: degree-k reduce to rank 0, then binomial broadcast (VIA-2003,
// section 4.2).
//
// A child puts its vector into the parent's block of its own number, in one piece, filled from the
// bottom, the allreduce counter behind it; the parent folds in ascending rank order. No
// notification is needed within the collective: nobody has the result before everybody has
// contributed.
#include "coll/allreduce/degree_k.hpp"

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/reduce_tree.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task allreduce_degree_k(Collective& c, DegreeK p) {
  const BroadcastTree down(c.rank(), c.size(), static_cast<int>(p.down));
  const int result = c.bcast_block(0);
  Completion sent;
  co_await c.enter(true);
  // The vector is folded in the receive buffer; the result goes down from there (as in the paper).
  co_await reduce_up_tree(c, static_cast<int>(p.degree), c.call.recv, &sent);
  const void* data = c.call.recv;
  if (down.parent() >= 0) {
    co_await c.arrival(result, down.parent());
    data = c.data(result, c.call.bytes);
  }
  for (int child = 0; down.child(child) >= 0; ++child) {
    co_await c.put(down.child(child), result, data, c.call.bytes, &sent);
  }
  // The own contribution may still be on its way out of the receive buffer.
  co_await c.completed(sent);
  if (down.parent() >= 0) c.place(c.call.recv, data, c.call.bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_degree_k = {
    .coll = Coll::allreduce,
    .name = "degree_k",
    .run = with_parameters<tutti::allreduce_degree_k>,
    .restriction_of = with_parameters<fits_degree_k>,
    .parameters = kDegreeK,
    .source = "VIA-2003, sections 4.1 and 4.2",
};

}  // namespace algorithm
}  // namespace tutti
