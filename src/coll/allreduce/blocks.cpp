// Allreduce through shared blocks: everybody folds everybody's vector, block by block, in rank
// order. More to fold than in allreduce_reduce_scatter_allgather, but only one step of
// synchronisation.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task allreduce_blocks(Collective& c, SharedBlocks p) {
  return fold_through_blocks(c, Publishers::all(c), p.bytes(c), true);
}

namespace algorithm {

const Algorithm allreduce_blocks = {
    .coll = Coll::allreduce,
    .name = "blocks",
    .run = with_parameters<tutti::allreduce_blocks>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
