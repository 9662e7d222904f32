// Broadcast by cross-memory attach: everybody reads the root's buffer in place.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_cma(Collective& c) {
  return through_memory(c, Publishers::only(c.call.root), c.call.recv, c.call.bytes,
                        c.rank() != c.call.root, [&c](int, const Remote& remote) {
                          return read_now(c, remote, 0, c.call.recv, c.call.bytes);
                        });
}

namespace algorithm {

const Algorithm bcast_cma = {
    .coll = Coll::bcast,
    .name = "cma",
    .run = with_parameters<tutti::bcast_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
