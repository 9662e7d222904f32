// Allreduce of vectors that cannot be cut: everybody folds everybody's whole vector in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task allreduce_whole(Collective& c, SharedBlocks p) {
  return fold_whole(c, c.call.send, c.call.bytes, 0, c.call.bytes, true, c.call.recv, p.bytes(c));
}

namespace algorithm {

const Algorithm allreduce_whole = {
    .coll = Coll::allreduce,
    .name = "whole",
    .run = with_parameters<tutti::allreduce_whole>,
    .restriction_of = with_parameters<whole_vectors>,
    .items = with_parameters<whole_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
