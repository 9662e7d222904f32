// Reduce, flat: everybody publishes its vector in its cell, the root folds them in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_cells.hpp"

namespace tutti {

Task reduce_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_through_cells(t, call, k, call.bytes, 0, t.rank() == call.root);
}

}  // namespace tutti
