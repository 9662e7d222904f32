// Allreduce through shared blocks: everybody folds everybody's vector, block by block, in rank
// order. More to fold than in allreduce_split, but only one step of synchronisation.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"

namespace tutti {

Task allreduce_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return fold_through_blocks(t, call, k, block_parameter(t, p), true);
}

}  // namespace tutti
