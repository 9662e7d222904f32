// Allreduce as reduce-scatters nested along the machine, then allgathers back: the members below
// one last-level cache divide the vector among themselves, those that have got one part divide it
// among their caches, and so on. So each fold and each copy has few peers, and a package is entered
// by what is folded already.
//
// Everything of a chunk lies in one block of each member, where it lies in the vector: first the
// member's own operand, over which its parts are folded, each within the one before, and then the
// result, from the smallest part out. Nobody else reads a part that the member folds over, nor what
// it copies there before it says so. Items of a chunk: one for each level on the way in, and one
// for each on the way out.
#include <array>
#include <utility>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

struct Part {
  std::size_t begin = 0, bytes = 0;  // in the chunk
};

/// The index-th of as many equal parts.
Part divide(const Part& whole, std::size_t element_bytes, int parts, int index) noexcept {
  const Partition partition(whole.bytes, element_bytes, parts);
  return {whole.begin + partition.begin(index), partition.bytes(index)};
}

/// A chunk of the vector as this rank sees it.
struct Chunk {
  Chunk(const Collective& c, const MachineLevels& its_levels, std::size_t most,
        std::uint64_t index) noexcept
      : levels(its_levels),
        element_bytes(c.call.reduction->element_bytes),
        offset(index * most),
        first_item(index * 2 * static_cast<std::uint64_t>(its_levels.count())) {
    own[0] = {0, std::min(most, c.call.bytes - offset)};
    for (int level = 0; level < levels.count(); ++level)
      own[static_cast<std::size_t>(level) + 1] = part_of(level, levels.place(level));
  }
  /// What this rank's peers divide among themselves at a level.
  const Part& whole(int level) const noexcept { return own[static_cast<std::size_t>(level)]; }
  /// What the one at `place` gets of it.
  Part part_of(int level, int place) const noexcept {
    return divide(whole(level), element_bytes, levels.radix(level), place);
  }
  std::uint64_t item_in(int level) const noexcept {
    return first_item + static_cast<std::uint64_t>(level);
  }
  std::uint64_t item_out(int level) const noexcept {
    return last_item() - static_cast<std::uint64_t>(level);
  }
  std::uint64_t last_item() const noexcept {
    return first_item + 2 * static_cast<std::uint64_t>(levels.count()) - 1;
  }

  const MachineLevels& levels;
  const std::size_t element_bytes;
  const std::size_t offset;  // in the vector
  const std::uint64_t first_item;
  std::array<Part, MachineLevels::kMost + 1> own;
};

void contribute(Collective& c, const Chunk& chunk, std::byte* block) {
  c.place_shared(block, at(c.call.send, chunk.offset), chunk.whole(0).bytes);
  c.stream().post(chunk.item_in(0), block, chunk.whole(0).bytes);
}

/// Folds the own part from the blocks of the peers at a level, in their order.
Task fold_level(Collective& c, const Chunk& chunk, int level, std::byte* block) {
  const int own = chunk.levels.place(level);
  const Part part = chunk.part_of(level, own);
  std::byte* const result = at(c.call.recv, chunk.offset + part.begin);
  Folder fold(c, result, part.bytes);
  for (int place = 0; place < chunk.levels.radix(level); ++place) {
    if (place == own) {
      fold(block + part.begin);
      continue;
    }
    const int peer = chunk.levels.peer(level, place);
    co_await c.stream().posted(chunk.item_in(level), peer);
    fold(c.stream().part(chunk.item_in(level), peer, part.begin, part.bytes));
  }
  fold.finish();
  c.place_shared(block + part.begin, result, part.bytes);
  co_return Status::success();
}

/// Copies the parts of the peers at a level, and leaves them in the own block for those below.
Task collect_level(Collective& c, const Chunk& chunk, int level, std::byte* block) {
  const int radix = chunk.levels.radix(level), own = chunk.levels.place(level);
  const std::uint64_t item = chunk.item_out(level);
  for (int step = 1; step < radix; ++step) {
    const int place = (own + step) % radix, peer = chunk.levels.peer(level, place);
    const Part part = chunk.part_of(level, place);
    co_await c.stream().posted(item, peer);
    std::byte* const result = at(c.call.recv, chunk.offset + part.begin);
    c.place(result, c.stream().part(item, peer, part.begin, part.bytes), part.bytes);
    if (level > 0) c.place_shared(block + part.begin, result, part.bytes);
  }
  co_return Status::success();
}

Task run_chunk(Collective& c, const Chunk& chunk, std::byte* block) {
  const int levels = chunk.levels.count();
  for (int level = 0; level < levels; ++level) {
    if (level > 0) c.stream().post(chunk.item_in(level), block, chunk.whole(0).bytes);
    co_await fold_level(c, chunk, level, block);
  }
  for (int level = levels - 1; level >= 0; --level) {
    c.stream().post(chunk.item_out(level), block, chunk.whole(0).bytes);
    co_await collect_level(c, chunk, level, block);
  }
  c.stream().drain(chunk.last_item());
  co_return Status::success();
}

}  // namespace

Task allreduce_nested(Collective& c, SharedBlocks p) {
  const MachineLevels& levels = c.team.machine_levels();
  const std::size_t most = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  const std::uint64_t count = chunks(c.call.bytes, most);
  co_await c.stream().turn();
  // A chunk's items share a block, which is theirs until the last has been read.
  std::byte *block = nullptr, *next = nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Chunk chunk(c, levels, most, i);
    if (block == nullptr) {
      if (!c.stream().try_block(chunk.last_item(), chunk.whole(0).bytes, &block))
        co_await c.stream().wait_block(chunk.last_item(), chunk.whole(0).bytes, &block);
      contribute(c, chunk, block);
    }
    // The next chunk's operand goes out before this one is waited for, where it may.
    if (i + 1 < count) {
      const Chunk ahead(c, levels, most, i + 1);
      if (c.stream().try_block(ahead.last_item(), ahead.whole(0).bytes, &next))
        contribute(c, ahead, next);
    }
    co_await run_chunk(c, chunk, block);
    block = std::exchange(next, nullptr);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_nested = {
    .coll = Coll::allreduce,
    .name = "nested",
    .run = with_parameters<tutti::allreduce_nested>,
    .restriction_of = with_parameters<nests_along_the_machine>,
    .items = with_parameters<nested_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; reduce-scatters and allgathers along the machine",
};

}  // namespace algorithm
}  // namespace tutti
