// Broadcast through shared blocks: the root copies in, the others copy out, overlapped block by
// block.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task bcast_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const bool reads = t.rank() != call.root;
  return through_blocks(
      t, k, Publishers::only(call.root), call.recv, [&call](int) { return call.bytes; },
      block_parameter(t, p), reads,
      [&t, &call](int, std::size_t offset, const std::byte* data, std::size_t bytes) {
        place(t, at(call.recv, offset), data, bytes);
      });
}

}  // namespace tutti
