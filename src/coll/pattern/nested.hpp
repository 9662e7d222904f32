// Vectors that the members of a node divide along the machine: those below one last-level cache
// divide a vector among themselves, those that have got one part divide it among their caches, and
// so on. So each fold and each copy has few peers, and a package is entered by few bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/task.hpp"
#include "coll/collective.hpp"
#include "team/machine_levels.hpp"

namespace tutti {

/// A range of bytes.
struct Part {
  std::size_t begin = 0, bytes = 0;
};

/// The index-th of as many parts of whole units, of which the last may be cut short.
Part divide(const Part& whole, std::size_t unit, int parts, int index) noexcept;

/// In what vectors of such elements are divided: in cache lines, so that no two members write to
/// one, where a line holds whole elements.
constexpr std::size_t nested_unit(std::size_t element_bytes) noexcept {
  return kCacheLine % element_bytes == 0 ? kCacheLine : element_bytes;
}

/// A chunk of a vector, all of which lies in one shared block of each member at its place in the
/// chunk, and the parts of it that this rank gets of its peers level by level.
class NestedChunk {
 public:
  /// `index`: of chunks of `most` bytes of `vector` bytes. `items`: stream items of each of them.
  NestedChunk(const MachineLevels& levels, std::size_t vector, std::size_t unit, std::size_t most,
              std::uint64_t index, std::uint64_t items) noexcept;

  const MachineLevels& levels() const noexcept { return levels_; }
  /// Where it begins in the vector, and its length.
  std::size_t offset() const noexcept { return offset_; }
  std::size_t bytes() const noexcept { return whole(0).bytes; }
  /// What this rank's peers divide among themselves at a level; of the number of levels: what this
  /// rank gets in the end.
  const Part& whole(int level) const noexcept { return own_[static_cast<std::size_t>(level)]; }
  /// What the one at `place` gets of it.
  Part part_of(int level, int place) const noexcept {
    return divide(whole(level), unit_, levels_.radix(level), place);
  }
  /// The i-th item of the chunk.
  std::uint64_t item(int i) const noexcept { return first_item_ + static_cast<std::uint64_t>(i); }
  std::uint64_t last_item() const noexcept { return first_item_ + items_ - 1; }

 private:
  const MachineLevels& levels_;
  const std::size_t unit_;
  const std::size_t offset_;
  const std::uint64_t first_item_, items_;
  std::array<Part, MachineLevels::kMost + 1> own_;
};

/// A block for the item, and for those before it that share it: theirs until it has been read.
Task take_block(Collective& c, std::uint64_t item, std::size_t bytes, std::byte** block,
                Readers readers = Readers::peers) noexcept;

/// Folds a part of the own block with the same part of those of the peers at a level, which they
/// have posted as `item`, in their order. The result is at its place of `result`, which holds a
/// chunk, and in the own block, where nobody else may read that part meanwhile.
Task fold_part(Collective& c, const NestedChunk& chunk, int level, std::uint64_t item, Part part,
               std::byte* result, std::byte* block) noexcept;

/// Copies the parts of the peers at a level, which they have posted as `item`, to their places of
/// `result` and of the own block. Either may be nullptr.
Task collect_parts(Collective& c, const NestedChunk& chunk, int level, std::uint64_t item,
                   std::byte* result, std::byte* block) noexcept;

/// Chunks one after the other: `run(chunk, block)` of each, with the operand of the chunk in the
/// block. The next chunk's operand goes out, as its first item, before this one is waited for,
/// where it may. `chunk_at(i)`: the i-th of `count`.
template <class ChunkAt, class Run>
Task run_with_operands(Collective& c, std::uint64_t count, ChunkAt chunk_at, Run run) noexcept {
  const auto contribute = [&c](const NestedChunk& chunk, std::byte* block) {
    c.place_shared(block, static_cast<const std::byte*>(c.call.send) + chunk.offset(),
                   chunk.bytes());
    c.stream().post(chunk.item(0), block, chunk.bytes(), Readers::peers);
  };
  std::byte* block = nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    const NestedChunk chunk = chunk_at(i);
    if (block == nullptr) {
      co_await take_block(c, chunk.last_item(), chunk.bytes(), &block);
      contribute(chunk, block);
    }
    std::byte* next = nullptr;
    if (i + 1 < count) {
      const NestedChunk ahead = chunk_at(i + 1);
      if (c.stream().try_block(ahead.last_item(), ahead.bytes(), &next, Readers::peers))
        contribute(ahead, next);
    }
    co_await run(chunk, block);
    block = next;
  }
  co_return Status::success();
}

}  // namespace tutti
