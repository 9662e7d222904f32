// Reduce-scatter with equal or listed blocks: everybody publishes its vector and folds its own
// block of all of them, in rank order.
#include <algorithm>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/pattern/own_block.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task reduce_scatter_block_flat(Collective& c) {
  const OwnBlock own(c);
  return fold_through_cells(c, own.total, own.begin, own.bytes, false);
}

namespace {

/// Of two members: each publishes the other's block alone, so that both publish, and both read, at
/// the same time.
Task fold_of_two(Collective& c, const OwnBlock& own, void* result, std::size_t chunk) {
  const auto* const send = static_cast<const std::byte*>(c.call.send);
  return through_blocks(
      c, Publishers::all(c), {send + (c.rank() == 0 ? own.bytes : 0)},
      [&c](int member) { return block_bytes(c.call, 1 - member); }, chunk, true,
      [&c, result, mine = send + own.begin](int member, std::size_t offset, const std::byte* theirs,
                                            std::size_t bytes) {
        if (member == c.rank()) return;
        const std::byte* const first = c.rank() == 0 ? mine + offset : theirs;
        const std::byte* const second = c.rank() == 0 ? theirs : mine + offset;
        const auto vector_of = [&](int i) { return i == 0 ? first : second; };
        fold_vectors(c, 2, vector_of, at(result, offset), bytes);
      });
}

/// A slice of all members' chunks of `item`, at `offset` of their vectors.
void fold_slice_at_once(Collective& c, std::uint64_t item, std::size_t offset, const Slice& slice,
                        std::byte* out) noexcept {
  const auto vector_of = [&](int member) {
    const std::byte* const chunk =
        member == c.rank() ? at(c.call.send, offset) : c.stream().block(item, member);
    return chunk + slice.in_chunk;
  };
  c.fold_at_once(c.size(), vector_of, out, slice.bytes);
}

Task fold_own_block(Collective& c, const OwnBlock& own, void* result, std::size_t chunk) {
  // The first operand of a slice; the second fold takes both from where they are.
  const std::byte* first = nullptr;
  return through_blocks(
      c, Publishers::all(c), {c.call.send, own.begin, own.bytes},
      [total = own.total](int) { return total; }, chunk,
      ChunksRead::of(own.begin, own.bytes, chunk),
      [&c, own, result, first, chunk](int member, std::size_t offset, const std::byte* data,
                                      std::size_t bytes) mutable {
        const Slice slice = Slice::of(own.begin, own.bytes, offset, bytes);
        if (slice.bytes == 0) return;
        std::byte* const out = at(result, slice.in_block);
        if (c.at_once()) {
          if (member == c.size() - 1) fold_slice_at_once(c, offset / chunk, offset, slice, out);
          return;
        }
        const std::byte* operand = data + slice.in_chunk;
        if (member == 0) {
          first = operand;
        } else {
          c.fold(member == 1 ? first : out, operand, out, slice.bytes);
        }
      });
}

}  // namespace

Task reduce_scatter_block_blocks(Collective& c, SharedBlocks p) {
  const OwnBlock own(c);
  const std::size_t chunk = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  Temporary aside;
  const bool apart = own.overwrites_itself(c);
  if (apart) co_await aside.allocate(c, own.bytes);
  void* const result = apart ? aside.memory() : c.call.recv;
  co_await (c.size() == 2 ? fold_of_two : fold_own_block)(c, own, result, chunk);
  c.place(c.call.recv, result, own.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_cma(Collective& c) {
  std::vector<Remote> remotes(static_cast<std::size_t>(c.size()));
  const OwnBlock own(c);
  Scratch scratch(c);
  co_await scratch.take();
  // In place, the result would overwrite what others still read: it waits aside.
  Temporary aside;
  const bool in_place = c.call.send == c.call.recv;
  if (in_place) co_await aside.allocate(c, own.bytes);
  auto* out = static_cast<std::byte*>(in_place ? aside.memory() : c.call.recv);
  int known = 0;
  co_await through_memory(
      c, Publishers::all(c), c.call.send, own.total, true, [&](int member, const Remote& remote) {
        remotes[static_cast<std::size_t>(member)] = remote;
        if (++known < c.size() - 1) return Status::success();
        return fold_from_memory(c, c.call.send, remotes, own.begin, own.bytes, out, scratch);
      });
  if (in_place) c.place(c.call.recv, out, own.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_whole(Collective& c, SharedBlocks p) {
  const OwnBlock own(c);
  return fold_whole(c, c.call.send, own.total, own.begin, own.bytes, true, c.call.recv, p.bytes(c));
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

const Algorithm reduce_scatter_flat = {
    .coll = Coll::reduce_scatter,
    .name = "flat",
    .run = with_parameters<tutti::reduce_scatter_block_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm reduce_scatter_blocks = {
    .coll = Coll::reduce_scatter,
    .name = "blocks",
    .run = with_parameters<tutti::reduce_scatter_block_blocks>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<reduce_scatter_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm reduce_scatter_cma = {
    .coll = Coll::reduce_scatter,
    .name = "cma",
    .run = with_parameters<tutti::reduce_scatter_block_cma>,
    .restriction_of = with_parameters<reduces_by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
};

const Algorithm reduce_scatter_whole = {
    .coll = Coll::reduce_scatter,
    .name = "whole",
    .run = with_parameters<tutti::reduce_scatter_block_whole>,
    .restriction_of = with_parameters<whole_vectors>,
    .items = with_parameters<whole_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
