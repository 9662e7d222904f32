// Broadcast, flat: the root writes its cell once, everybody else reads it.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task bcast_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const bool reads = t.rank() != call.root;
  return through_cells(
      t, k, Publishers::only(call.root), call.recv, call.bytes, reads,
      [&t, &call](int, const std::byte* data) { place(t, call.recv, data, call.bytes); });
}

}  // namespace tutti
