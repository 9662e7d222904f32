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
/// that is what keeps a root from waiting when there are more ranks than cores.
inline constexpr std::uint64_t kSmallCells = 64;
inline constexpr std::uint64_t kCells = 16;
inline constexpr std::size_t kSmallCellBytes =
    128;  // two lines, since lines are prefetched in pairs
inline constexpr std::size_t kCellBytes = 1024 + 128;  // a kilobyte, the flag before it

template <std::size_t Bytes>
struct alignas(2 * kCacheLine) CellOf {
  Word flag;  // epoch + 1 of the message inside; stored after the data (release)
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

struct Board {
  // Both counters: written by the owner, read by members that want to reuse cells or blocks.
  alignas(kCacheLine) Word done;  // all collectives of epochs below this have finished here
  Word drained;                   // all stream items below this have been read here
  Word inbox;                     // 1 + offset of the inbox in the owner's arena; 0: none yet
  StreamLine stream[kStreamLines];
  SmallCell small_cells[kSmallCells];
  Cell cells[kCells];
};

}  // namespace tutti
