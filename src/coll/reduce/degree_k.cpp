// Degree-k tree-based reduce by RDMA write (VIA-2003, section 4.2). The tree keeps rank order, so
// it ends at rank 0; another root gets the result by one more put.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/reduce_tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

namespace {

struct ReduceDegreeK {
  std::int64_t degree = 1;  // children that a member folds in a step
};

}  // namespace

Task reduce_degree_k(Collective& c, ReduceDegreeK p) {
  Completion sent;
  co_await c.enter(false);
  // Only the root has a receive buffer; the others fold in scratch memory of their own.
  Scratch scratch(c);
  co_await scratch.take();
  void* const accumulator = c.rank() == c.call.root ? c.call.recv : scratch.memory();
  co_await reduce_up_tree(c, static_cast<int>(p.degree), accumulator, &sent);
  if (c.call.root != 0) {
    const int block = c.bcast_block(0);
    if (c.rank() == 0) co_await c.put(c.call.root, block, accumulator, c.call.bytes, &sent);
    if (c.rank() == c.call.root) {
      co_await c.arrival(block, 0);
      co_await c.completed(sent);
      c.place(c.call.recv, c.data(block, c.call.bytes), c.call.bytes);
    }
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

static const char* fits(const Shape& s, ReduceDegreeK p) { return fits_inbox_block(s, p.degree); }

namespace algorithm {

const Algorithm reduce_degree_k = {
    .coll = Coll::reduce,
    .name = "degree_k",
    .run = with_parameters<tutti::reduce_degree_k>,
    .restriction_of = with_parameters<fits>,
    .parameters = parameters_of<ReduceDegreeK>(
        {{&ReduceDegreeK::degree, "degree", "members", 1, 15, "degree: 1, 3, 7 or 15"}}),
    .source = "VIA-2003, sections 4.1 and 4.2",
};

}  // namespace algorithm
}  // namespace tutti
