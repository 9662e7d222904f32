// Allgather and allgatherv through shared blocks, pipelined.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allgather_blocks(Collective& c, const Parameters& p) {
  return through_blocks(
      c, Publishers::all(c), c.call.send, [&c](int) { return c.call.bytes; }, block_parameter(c, p),
      true,
      [&c](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes + offset), data,
                bytes);
      });
}

Task allgatherv_blocks(Collective& c, const Parameters& p) {
  return through_blocks(
      c, Publishers::all(c), c.call.send, [&c](int member) { return c.call.counts[member]; },
      block_parameter(c, p), true,
      [&c](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, c.call.displs[member] + offset), data, bytes);
      });
}

namespace algorithm {

const Algorithm allgather_blocks = {
    .coll = Coll::allgather,
    .name = "blocks",
    .run = tutti::allgather_blocks,
    .restriction_of = through_shared_blocks,
    .items = block_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

const Algorithm allgatherv_blocks = {
    .coll = Coll::allgatherv,
    .name = "blocks",
    .run = tutti::allgatherv_blocks,
    .restriction_of = through_shared_blocks,
    .items = longest_block_items,
    .parameters = {kBlockParameter},
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
