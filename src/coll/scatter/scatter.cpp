// Scatter: the root publishes all blocks, everybody reads its own.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task scatter_flat(Collective& c) {
  const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
  return through_cells(
      c, Publishers::only(c.call.root), c.call.send, total, true, [&c](int, const std::byte* data) {
        const std::size_t offset = static_cast<std::size_t>(c.rank()) * c.call.bytes;
        // In place at the root: the data is there, and the receive buffer is its
        // place.
        const bool there = c.rank() == c.call.root && c.call.recv == at(c.call.send, offset);
        if (!there) c.place(c.call.recv, data + offset, c.call.bytes);
      });
}

Task scatter_blocks(Collective& c, SharedBlocks p) {
  const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
  const std::size_t own = c.call.bytes * static_cast<std::size_t>(c.rank());
  return through_blocks(
      c, Publishers::only(c.call.root), Published::to_others(c, c.call.send, c.call.bytes),
      [total](int) { return total; }, p.bytes(c), ChunksRead::of(own, c.call.bytes, p.bytes(c)),
      [&c](int, std::size_t offset, const std::byte* data, std::size_t bytes) {
        const Slice slice(static_cast<std::size_t>(c.rank()), c.call.bytes, offset, bytes);
        c.place(at(c.call.recv, slice.in_block), data + slice.in_chunk, slice.bytes);
      });
}

Task scatter_cma(Collective& c) {
  const std::size_t own = static_cast<std::size_t>(c.rank()) * c.call.bytes;
  const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
  if (c.rank() == c.call.root) c.place(c.call.recv, at(c.call.send, own), c.call.bytes);
  return through_memory(c, Publishers::only(c.call.root), c.call.send, total,
                        c.rank() != c.call.root, [&c, own](int, const Remote& remote) {
                          return read_now(c, remote, own, c.call.recv, c.call.bytes);
                        });
}

namespace algorithm {

const Algorithm scatter_flat = {
    .coll = Coll::scatter,
    .name = "flat",
    .run = with_parameters<tutti::scatter_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm scatter_blocks = {
    .coll = Coll::scatter,
    .name = "blocks",
    .run = with_parameters<tutti::scatter_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm scatter_cma = {
    .coll = Coll::scatter,
    .name = "cma",
    .run = with_parameters<tutti::scatter_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
