// Allreduce by recursive doubling between nodes: log2 N exchanges of whole vectors.
#include "coll/pattern/recursive_doubling.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_recursive_doubling(Collective& c) {
  c.place(c.call.recv, c.call.send, c.call.bytes);
  co_await double_up(c, c.call.recv, c.call.bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_recursive_doubling = {
    .coll = Coll::allreduce,
    .name = "recursive_doubling",
    .run = with_parameters<tutti::allreduce_recursive_doubling>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "recursive doubling",
    .former_name = "doubling",
};

}  // namespace algorithm
}  // namespace tutti
