// Gather: everybody but the root publishes, only the root reads.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task gather_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return through_cells(t, k, Publishers::all(t), call.send, call.bytes, t.rank() == call.root,
                       [&t, &call](int member, const std::byte* data) {
                         place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes),
                               data, call.bytes);
                       });
}

Task gather_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return through_blocks(
      t, k, Publishers::all(t), call.send, [&call](int) { return call.bytes; },
      block_parameter(t, p), t.rank() == call.root,
      [&t, &call](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes + offset), data,
              bytes);
      });
}

Task gather_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const bool root = t.rank() == call.root;
  if (root) {
    place(t, at(call.recv, static_cast<std::size_t>(call.root) * call.bytes), call.send,
          call.bytes);
  }
  return through_memory(t, k, Publishers::all(t), call.send, call.bytes, root,
                        [&t, &call](int member, const Remote& remote) {
                          const std::size_t offset = static_cast<std::size_t>(member) * call.bytes;
                          return read_now(t, remote, 0, at(call.recv, offset), call.bytes);
                        });
}

}  // namespace tutti
