// Reduce through shared blocks: the root folds every block as it comes, in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"

namespace tutti {

Task reduce_blocks(Collective& c, const Parameters& p) {
  return fold_through_blocks(c, block_parameter(c, p), c.rank() == c.call.root);
}

}  // namespace tutti
