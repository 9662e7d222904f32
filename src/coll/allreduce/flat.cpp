// Allreduce, flat: everybody publishes its vector in its cell, and folds all of them in rank order.
// The order is the same everywhere, and so are the bits of the result.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_cells.hpp"

namespace tutti {

Task allreduce_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_through_cells(t, call, k, call.bytes, 0, true);
}

}  // namespace tutti
