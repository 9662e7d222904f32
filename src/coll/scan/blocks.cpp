// Scan and exscan through shared blocks, from rank to rank: everybody folds its operand behind what
// the rank before it has published, and publishes that for the one behind it. Vectors that may be
// cut pass along in chunks, so that all ranks fold at the same time.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

/// One chunk on this rank. `before`: what the ranks before it have folded; `block`: shared memory
/// for what is published, nullptr on the last rank.
void fold_chunk(Collective& c, const std::byte* before, std::size_t offset, std::size_t bytes,
                std::byte* block) noexcept {
  const std::byte* const own = at(c.call.send, offset);
  std::byte* const out = at(c.call.recv, offset);
  if (before == nullptr) {
    c.place_shared(block, own, bytes);
    if (c.call.coll == Coll::scan) c.place(out, own, bytes);
  } else if (c.call.coll == Coll::scan) {
    c.fold(before, own, out, bytes);
    if (block != nullptr) c.place_shared(block, out, bytes);
  } else {
    // In place, the own operand lies where the result goes.
    if (block != nullptr) c.fold(before, own, block, bytes);
    c.place(out, before, bytes);
  }
}

}  // namespace

Task scan_blocks(Collective& c, SharedBlocks p) {
  const std::size_t chunk = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  const int before = c.rank() - 1;
  const bool publishes = c.rank() + 1 < c.size();
  co_await c.stream().turn();
  for (std::uint64_t item = 0; item < c.items(); ++item) {
    const std::size_t offset = item * chunk;
    const std::size_t bytes = std::min(chunk, c.call.bytes - offset);
    const std::byte* operand = nullptr;
    if (before >= 0) {
      co_await c.stream().posted(item, before);
      operand = c.stream().block(item, before);
    }
    std::byte* block = nullptr;
    if (publishes && !c.stream().try_block(item, bytes, &block))
      co_await c.stream().wait_block(item, bytes, &block);
    fold_chunk(c, operand, offset, bytes, block);
    if (publishes) c.stream().post(item, block, bytes);
    c.stream().drain(item);
  }
  c.finish();
  co_return Status::success();
}

namespace {

/// Stream items are numbered rank by rank, each of which publishes its whole vector.
Task read_whole(Collective& c, int member, void* vector, std::size_t block) {
  const std::uint64_t count = chunks(c.call.bytes, block);
  const std::uint64_t first = static_cast<std::uint64_t>(member) * count;
  if (first != 0) c.stream().drain(first - 1);
  for (std::uint64_t piece = 0; piece < count; ++piece) {
    const std::size_t offset = piece * block;
    co_await c.stream().posted(first + piece, member);
    c.place(at(vector, offset), c.stream().block(first + piece, member),
            std::min(block, c.call.bytes - offset));
    c.stream().drain(first + piece);
  }
  co_return Status::success();
}

Task publish_whole(Collective& c, const void* vector, std::size_t block) {
  const std::uint64_t count = chunks(c.call.bytes, block);
  const std::uint64_t first = static_cast<std::uint64_t>(c.rank()) * count;
  for (std::uint64_t piece = 0; piece < count; ++piece) {
    const std::size_t offset = piece * block;
    const std::size_t bytes = std::min(block, c.call.bytes - offset);
    std::byte* shared = nullptr;
    if (!c.stream().try_block(first + piece, bytes, &shared))
      co_await c.stream().wait_block(first + piece, bytes, &shared);
    c.place_shared(shared, at(vector, offset), bytes);
    c.stream().post(first + piece, shared, bytes);
  }
  co_return Status::success();
}

}  // namespace

Task scan_whole(Collective& c, SharedBlocks p) {
  const bool inclusive = c.call.coll == Coll::scan;
  const bool publishes = c.rank() + 1 < c.size();
  const std::size_t bytes = c.call.bytes, block = p.bytes(c);
  Temporary before, folded;
  const void* result = c.call.send;  // of the ranks up to this one
  if (c.rank() > 0) co_await before.allocate(c, bytes);
  if (c.rank() > 0 && (publishes || inclusive)) co_await folded.allocate(c, bytes);
  co_await c.stream().turn();
  if (c.rank() > 0) {
    co_await read_whole(c, c.rank() - 1, before.memory(), block);
    c.stream().drain(c.items() - 1);
    if (publishes || inclusive) {
      c.fold(before.memory(), c.call.send, folded.memory(), bytes);
      result = folded.memory();
    }
  } else {
    c.stream().drain(c.items() - 1);
  }
  if (publishes) co_await publish_whole(c, result, block);
  if (inclusive) c.place(c.call.recv, result, bytes);
  if (!inclusive && c.rank() > 0) c.place(c.call.recv, before.memory(), bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scan_blocks = {
    .coll = Coll::scan,
    .name = "blocks",
    .run = with_parameters<tutti::scan_blocks>,
    .restriction_of = with_parameters<passes_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm scan_whole = {
    .coll = Coll::scan,
    .name = "whole",
    .run = with_parameters<tutti::scan_whole>,
    .restriction_of = with_parameters<whole_vectors>,
    .items = with_parameters<whole_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm exscan_blocks = {
    .coll = Coll::exscan,
    .name = "blocks",
    .run = with_parameters<tutti::scan_blocks>,
    .restriction_of = with_parameters<passes_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm exscan_whole = {
    .coll = Coll::exscan,
    .name = "whole",
    .run = with_parameters<tutti::scan_whole>,
    .restriction_of = with_parameters<whole_vectors>,
    .items = with_parameters<whole_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
