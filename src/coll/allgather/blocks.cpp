// Allgather and allgatherv through shared blocks, pipelined.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task allgather_blocks(Collective& c, SharedBlocks p) {
  return through_blocks(
      c, Publishers::all(c), {c.call.send}, [&c](int) { return c.call.bytes; }, p.bytes(c), true,
      [&c](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes + offset), data,
                bytes);
      });
}

Task allgatherv_blocks(Collective& c, SharedBlocks p) {
  return through_blocks(
      c, Publishers::all(c), {c.call.send}, [&c](int member) { return c.call.counts[member]; },
      p.bytes(c), true,
      [&c](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, c.call.displs[member] + offset), data, bytes);
      });
}

namespace algorithm {

const Algorithm allgather_blocks = {
    .coll = Coll::allgather,
    .name = "blocks",
    .run = with_parameters<tutti::allgather_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm allgatherv_blocks = {
    .coll = Coll::allgatherv,
    .name = "blocks",
    .run = with_parameters<tutti::allgatherv_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<longest_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
