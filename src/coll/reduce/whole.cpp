// Reduce of vectors that cannot be cut: the root folds everybody's whole vector in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_whole(Collective& c, const Parameters& p) {
  return fold_whole(c, c.call.send, c.call.bytes, 0, c.call.bytes, c.rank() == c.call.root,
                    c.call.recv, block_parameter(c, p));
}

namespace algorithm {

const Algorithm reduce_whole = {
    .coll = Coll::reduce,
    .name = "whole",
    .run = tutti::reduce_whole,
    .restriction_of = whole_vectors,
    .items = whole_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
