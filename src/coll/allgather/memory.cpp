// Allgather and allgatherv by cross-memory attach: everybody reads everybody's block in place.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task allgather_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  place(t, at(call.recv, static_cast<std::size_t>(t.rank()) * call.bytes), call.send, call.bytes);
  return through_memory(t, k, Publishers::all(t), call.send, call.bytes, true,
                        [&t, &call](int member, const Remote& remote) {
                          const std::size_t offset = static_cast<std::size_t>(member) * call.bytes;
                          return read_now(t, remote, 0, at(call.recv, offset), call.bytes);
                        });
}

Task allgatherv_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t own = call.counts[t.rank()];
  place(t, at(call.recv, call.displs[t.rank()]), call.send, own);
  return through_memory(t, k, Publishers::all(t), call.send, own, true,
                        [&t, &call](int member, const Remote& remote) {
                          return read_now(t, remote, 0, at(call.recv, call.displs[member]),
                                          call.counts[member]);
                        });
}

}  // namespace tutti
