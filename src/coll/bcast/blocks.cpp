// Broadcast through shared blocks: the root copies in, the others copy out, overlapped block by
// block.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task bcast_blocks(Collective& c, SharedBlocks p) {
  const bool reads = c.rank() != c.call.root;
  return through_blocks(
      c, Publishers::only(c.call.root), {c.call.recv}, [&c](int) { return c.call.bytes; },
      p.bytes(c), reads,
      [&c](int, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, offset), data, bytes);
      });
}

namespace algorithm {

const Algorithm bcast_blocks = {
    .coll = Coll::bcast,
    .name = "blocks",
    .run = with_parameters<tutti::bcast_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
