// Allreduce through shared blocks: everybody folds everybody's vector, block by block, in rank
// order. More to fold than in allreduce_split, but only one step of synchronisation.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_blocks(Collective& c, const Parameters& p) {
  return fold_through_blocks(c, block_parameter(c, p), true);
}

namespace algorithm {

const Algorithm allreduce_blocks = {
    .coll = Coll::allreduce,
    .name = "blocks",
    .run = tutti::allreduce_blocks,
    .restriction_of = reduces_through_shared_blocks,
    .items = element_block_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
