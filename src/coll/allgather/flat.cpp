// Allgather, flat: everybody publishes its block in its cell and reads all the others'.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allgather_flat(Collective& c) {
  return through_cells(c, Publishers::all(c), c.call.send, c.call.bytes, true,
                       [&c](int member, const std::byte* data) {
                         c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes),
                                 data, c.call.bytes);
                       });
}

namespace algorithm {

const Algorithm allgather_flat = {
    .coll = Coll::allgather,
    .name = "flat",
    .run = with_parameters<tutti::allgather_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
