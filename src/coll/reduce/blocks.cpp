// Reduce through shared blocks: the root folds every block as it comes, in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"

namespace tutti {

Task reduce_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return fold_through_blocks(t, call, k, block_parameter(t, p), t.rank() == call.root);
}

}  // namespace tutti
