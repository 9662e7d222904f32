// Allreduce of vectors that cannot be cut: everybody folds everybody's whole vector in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_whole.hpp"

namespace tutti {

Task allreduce_whole(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return fold_whole(t, *call.reduction, k, call.send, call.bytes, 0, call.bytes, true, call.recv,
                    block_parameter(t, p));
}

}  // namespace tutti
