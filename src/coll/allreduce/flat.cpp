// Allreduce, flat: everybody publishes its vector in its cell, and folds all of them in rank order.
// The order is the same everywhere, and so are the bits of the result.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_flat(Collective& c) {
  return fold_through_cells(c, c.call.bytes, 0, c.call.bytes, false);
}

namespace algorithm {

const Algorithm allreduce_flat = {
    .coll = Coll::allreduce,
    .name = "flat",
    .run = with_parameters<tutti::allreduce_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
