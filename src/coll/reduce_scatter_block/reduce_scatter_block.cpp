// Reduce-scatter with equal blocks: everybody publishes its vector and folds its own block of all
// of them, in rank order.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

std::size_t total_of(const Collective& c) noexcept {
  return c.call.bytes * static_cast<std::size_t>(c.size());
}

}  // namespace

Task reduce_scatter_block_flat(Collective& c) {
  const std::size_t begin = static_cast<std::size_t>(c.rank()) * c.call.bytes;
  return fold_through_cells(c, total_of(c), begin, false);
}

namespace {

/// Of two members: each publishes the other's block alone, so that both publish, and both read, at
/// the same time.
Task fold_of_two(Collective& c, std::size_t chunk) {
  const auto* const send = static_cast<const std::byte*>(c.call.send);
  const auto rank = static_cast<std::size_t>(c.rank());
  return through_blocks(
      c, Publishers::all(c), {send + (1 - rank) * c.call.bytes}, [&c](int) { return c.call.bytes; },
      chunk, true,
      [&c, own = send + rank * c.call.bytes](int member, std::size_t offset, const std::byte* data,
                                             std::size_t bytes) {
        if (member == c.rank()) return;
        const std::byte* const mine = own + offset;
        c.fold(c.rank() == 0 ? mine : data, c.rank() == 0 ? data : mine, at(c.call.recv, offset),
               bytes);
      });
}

}  // namespace

Task reduce_scatter_block_blocks(Collective& c, SharedBlocks p) {
  const std::size_t total = total_of(c);
  const std::size_t chunk = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  if (c.size() == 2) {
    co_await fold_of_two(c, chunk);
    co_return Status::success();
  }
  // The first operand of a slice; the second fold takes both from where they are.
  const std::byte* first = nullptr;
  co_await through_blocks(
      c, Publishers::all(c), Published::to_others(c, c.call.send, c.call.bytes),
      [total](int) { return total; }, chunk, true,
      [&](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        const Slice slice(static_cast<std::size_t>(c.rank()), c.call.bytes, offset, bytes);
        if (slice.bytes == 0) return;
        std::byte* const out = at(c.call.recv, slice.in_block);
        const std::byte* operand = data + slice.in_chunk;
        if (member == 0) {
          first = operand;
          if (c.size() == 1) c.place(out, operand, slice.bytes);
        } else {
          c.fold(member == 1 ? first : out, operand, out, slice.bytes);
        }
      });
  co_return Status::success();
}

Task reduce_scatter_block_cma(Collective& c) {
  std::vector<Remote> remotes(static_cast<std::size_t>(c.size()));
  Scratch scratch(c);
  co_await scratch.take();
  // In place, the result would overwrite what others still read: it waits aside.
  Temporary aside;
  const bool in_place = c.call.send == c.call.recv;
  if (in_place) co_await aside.allocate(c, c.call.bytes);
  auto* out = static_cast<std::byte*>(in_place ? aside.memory() : c.call.recv);
  int known = 0;
  co_await through_memory(
      c, Publishers::all(c), c.call.send, total_of(c), true, [&](int member, const Remote& remote) {
        remotes[static_cast<std::size_t>(member)] = remote;
        if (++known < c.size() - 1) return Status::success();
        return fold_from_memory(c, c.call.send, remotes,
                                static_cast<std::size_t>(c.rank()) * c.call.bytes, c.call.bytes,
                                out, scratch);
      });
  if (in_place) c.place(c.call.recv, out, c.call.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_whole(Collective& c, SharedBlocks p) {
  return fold_whole(c, c.call.send, total_of(c), static_cast<std::size_t>(c.rank()) * c.call.bytes,
                    c.call.bytes, true, c.call.recv, p.bytes(c));
}

namespace algorithm {

const Algorithm reduce_scatter_block_flat = {
    .coll = Coll::reduce_scatter_block,
    .name = "flat",
    .run = with_parameters<tutti::reduce_scatter_block_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm reduce_scatter_block_blocks = {
    .coll = Coll::reduce_scatter_block,
    .name = "blocks",
    .run = with_parameters<tutti::reduce_scatter_block_blocks>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<reduce_scatter_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm reduce_scatter_block_cma = {
    .coll = Coll::reduce_scatter_block,
    .name = "cma",
    .run = with_parameters<tutti::reduce_scatter_block_cma>,
    .restriction_of = with_parameters<reduces_by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

const Algorithm reduce_scatter_block_whole = {
    .coll = Coll::reduce_scatter_block,
    .name = "whole",
    .run = with_parameters<tutti::reduce_scatter_block_whole>,
    .restriction_of = with_parameters<whole_vectors>,
    .items = with_parameters<whole_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
