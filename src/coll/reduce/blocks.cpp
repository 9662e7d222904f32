// Reduce through shared blocks: the root folds every block as it comes, in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task reduce_blocks(Collective& c, SharedBlocks p) {
  return fold_through_blocks(c, Publishers::all_but(c.call.root, c), p.bytes(c),
                             c.rank() == c.call.root);
}

namespace algorithm {

const Algorithm reduce_blocks = {
    .coll = Coll::reduce,
    .name = "blocks",
    .run = with_parameters<tutti::reduce_blocks>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
