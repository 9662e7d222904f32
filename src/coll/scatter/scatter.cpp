// Scatter: the root publishes all blocks, everybody reads its own.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"

namespace tutti {

Task scatter_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  return through_cells(t, k, Publishers::only(call.root), call.send, total, true,
                       [&t, &call](int, const std::byte* data) {
                         const std::size_t offset = static_cast<std::size_t>(t.rank()) * call.bytes;
                         // In place at the root: the data is there, and the receive buffer is its
                         // place.
                         const bool there =
                             t.rank() == call.root && call.recv == at(call.send, offset);
                         if (!there) place(t, call.recv, data + offset, call.bytes);
                       });
}

Task scatter_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  return through_blocks(
      t, k, Publishers::only(call.root), call.send, [total](int) { return total; },
      block_parameter(t, p), true,
      [&t, &call](int, std::size_t offset, const std::byte* data, std::size_t bytes) {
        const Slice slice(t.rank(), call.bytes, offset, bytes);
        place(t, at(call.recv, slice.in_block), data + slice.in_chunk, slice.bytes);
      });
}

Task scatter_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t own = static_cast<std::size_t>(t.rank()) * call.bytes;
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  if (t.rank() == call.root) place(t, call.recv, at(call.send, own), call.bytes);
  return through_memory(t, k, Publishers::only(call.root), call.send, total, t.rank() != call.root,
                        [&t, &call, own](int, const Remote& remote) {
                          return read_now(t, remote, own, call.recv, call.bytes);
                        });
}

}  // namespace tutti
