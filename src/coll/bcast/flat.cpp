// Broadcast, flat: the root writes its cell once, everybody else reads it.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_flat(Collective& c) {
  const bool reads = c.rank() != c.call.root;
  return through_cells(
      c, Publishers::only(c.call.root), c.call.recv, c.call.bytes, reads,
      [&c](int, const std::byte* data) { c.place(c.call.recv, data, c.call.bytes); });
}

namespace algorithm {

const Algorithm bcast_flat = {
    .coll = Coll::bcast,
    .name = "flat",
    .run = with_parameters<tutti::bcast_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
