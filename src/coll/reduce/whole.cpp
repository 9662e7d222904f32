// Reduce of vectors that cannot be cut: the root folds everybody's whole vector in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_whole.hpp"

namespace tutti {

Task reduce_whole(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return fold_whole(t, *call.reduction, k, call.send, call.bytes, 0, call.bytes,
                    t.rank() == call.root, call.recv, block_parameter(t, p));
}

}  // namespace tutti
