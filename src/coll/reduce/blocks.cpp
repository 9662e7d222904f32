// Reduce through shared blocks: the root folds every block as it comes, in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_blocks(Collective& c, const Parameters& p) {
  return fold_through_blocks(c, block_parameter(c, p), c.rank() == c.call.root);
}

namespace algorithm {

const Algorithm reduce_blocks = {
    .coll = Coll::reduce,
    .name = "blocks",
    .run = tutti::reduce_blocks,
    .restriction_of = reduces_through_shared_blocks,
    .items = element_block_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
