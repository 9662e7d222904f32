// Broadcast by cross-memory attach: everybody reads the root's buffer in place.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task bcast_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return through_memory(t, k, Publishers::only(call.root), call.recv, call.bytes,
                        t.rank() != call.root, [&t, &call](int, const Remote& remote) {
                          return read_now(t, remote, 0, call.recv, call.bytes);
                        });
}

}  // namespace tutti
