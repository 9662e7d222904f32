// Reduce, flat: the others publish their vectors in their cells, the root folds all in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_flat(Collective& c) {
  return fold_through_cells(c, c.call.bytes, 0, c.call.bytes, true);
}

namespace algorithm {

const Algorithm reduce_flat = {
    .coll = Coll::reduce,
    .name = "flat",
    .run = with_parameters<tutti::reduce_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
