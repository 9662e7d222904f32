// The shared parts of a team, as they lie in each member's arena. The owner of the arena writes,
// the other members read, except where said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/fabric.hpp"

namespace tutti {

/// Messages whose data lies beside the flag. Cells are used in the order of epochs, so their number
/// is how far the fastest member may be ahead of the slowest: many for the smallest messages, where
/// that is what keeps a root from waiting when there are more ranks than cores. Powers of two.
struct CellCounts {
  std::uint32_t small, large;
};
inline constexpr CellCounts kManyCells{64, 16};
/// For a team that runs one collective at a time: a persistent one.
inline constexpr CellCounts kFewCells{32, 8};
inline constexpr std::size_t kSmallCellBytes =
    128;  // two lines, since lines are prefetched in pairs
inline constexpr std::size_t kCellBytes = 1024 + 128;  // a kilobyte, the flag before it

template <std::size_t Bytes>
struct alignas(2 * kCacheLine) CellOf {
  Word flag;  // 2 * epoch + phase of the message inside; stored after the data (release)
  std::byte data[Bytes - sizeof(Word)];
};
using SmallCell = CellOf<kSmallCellBytes>;
using Cell = CellOf<kCellBytes>;
static_assert(sizeof(SmallCell) == kSmallCellBytes && sizeof(Cell) == kCellBytes);

inline constexpr std::uint64_t kStreamLines = 16;

/// Says where item n of a rank's stream is. Overwritten with item n + kStreamLines.
struct alignas(kCacheLine) StreamLine {
  Word flag;             // n + 1; stored last (release)
  std::uint64_t offset;  // of the block in the owner's arena
  std::uint64_t bytes;
  Key key;  // of user memory, where the item is not in a block
};

/// The cells follow it: first the small ones.
struct alignas(2 * kCacheLine) Board {
  // Both counters: written by the owner, read by members that want to reuse cells or blocks.
  alignas(kCacheLine) Word done;  // all collectives of epochs below this have finished here
  Word drained;                   // all stream items below this have been read here
  Word inbox;                     // 1 + offset of the inbox in the owner's arena; 0: none yet
  Word starved;                   // 1 while the owner waits for memory for its next stream item
  // Members that wait for `done`, and may sleep: added by each before it arms, so that the owner,
  // who has increased `done`, sees it whenever it sees a sleeper.
  std::atomic<std::uint32_t> watchers;
  std::uint32_t watches = 0;  // of the owner itself for others' `done`; its own engine's
  // What the owner waits to see in the one `done` that it watches; 0: it watches several. Written
  // before it is counted there.
  Word wanted;
  Word writes;  // 1 while the owner writes into memory that another member has posted by its key
  Word closed;  // 1 from when nobody may write into the owner's
  StreamLine stream[kStreamLines];

  SmallCell& small_cell(const CellCounts& counts, std::uint64_t epoch) noexcept {
    return reinterpret_cast<SmallCell*>(this + 1)[epoch & (counts.small - 1)];
  }
  Cell& cell(const CellCounts& counts, std::uint64_t epoch) noexcept {
    auto* const first = reinterpret_cast<std::byte*>(this + 1) + counts.small * sizeof(SmallCell);
    return reinterpret_cast<Cell*>(first)[epoch & (counts.large - 1)];
  }
  static constexpr std::size_t bytes(const CellCounts& counts) noexcept;
};

constexpr std::size_t Board::bytes(const CellCounts& counts) noexcept {
  return sizeof(Board) + counts.small * sizeof(SmallCell) + counts.large * sizeof(Cell);
}

}  // namespace tutti
