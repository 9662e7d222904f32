// Allreduce of vectors that cannot be cut: everybody folds everybody's whole vector in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_whole(Collective& c, const Parameters& p) {
  return fold_whole(c, c.call.send, c.call.bytes, 0, c.call.bytes, true, c.call.recv,
                    block_parameter(c, p));
}

namespace algorithm {

const Algorithm allreduce_whole = {
    .coll = Coll::allreduce,
    .name = "whole",
    .run = tutti::allreduce_whole,
    .restriction_of = whole_vectors,
    .items = whole_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
