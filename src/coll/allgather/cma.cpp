// Allgather and allgatherv by cross-memory attach: everybody reads everybody's block in place.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allgather_cma(Collective& c) {
  c.place(at(c.call.recv, static_cast<std::size_t>(c.rank()) * c.call.bytes), c.call.send,
          c.call.bytes);
  return through_memory(c, Publishers::all(c), c.call.send, c.call.bytes, true,
                        [&c](int member, const Remote& remote) {
                          const std::size_t offset =
                              static_cast<std::size_t>(member) * c.call.bytes;
                          return read_now(c, remote, 0, at(c.call.recv, offset), c.call.bytes);
                        });
}

Task allgatherv_cma(Collective& c) {
  const std::size_t own = c.call.counts[c.rank()];
  c.place(at(c.call.recv, c.call.displs[c.rank()]), c.call.send, own);
  return through_memory(c, Publishers::all(c), c.call.send, own, true,
                        [&c](int member, const Remote& remote) {
                          return read_now(c, remote, 0, at(c.call.recv, c.call.displs[member]),
                                          c.call.counts[member]);
                        });
}

namespace algorithm {

const Algorithm allgather_cma = {
    .coll = Coll::allgather,
    .name = "cma",
    .run = with_parameters<tutti::allgather_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

const Algorithm allgatherv_cma = {
    .coll = Coll::allgatherv,
    .name = "cma",
    .run = with_parameters<tutti::allgatherv_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
