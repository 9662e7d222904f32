// Barrier, flat: everybody raises the flag of its cell and looks at everybody else's.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task barrier_flat(Collective& c) {
  return through_cells(c, Publishers::all(c), nullptr, 0, true, [](int, const std::byte*) {});
}

namespace algorithm {

const Algorithm barrier_flat = {
    .coll = Coll::barrier,
    .name = "flat",
    .run = with_parameters<tutti::barrier_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
