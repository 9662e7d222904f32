// The shared parts of a team, as they lie in each member's arena. The owner of the arena writes,
// the other members read, except where said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/fabric.hpp"

namespace tutti {

/// Collectives that may be in flight between the fastest and the slowest member before the fastest
/// waits; the number of cells, and of stream lines.
inline constexpr std::uint64_t kCells = 16;
inline constexpr std::uint64_t kStreamLines = 16;

/// A small message beside its flag: the first 56 bytes share the flag's cache line, so that flag and
/// data cross in one transfer.
inline constexpr std::size_t kCellBytes = 1024;
struct alignas(kCacheLine) Cell {
  Word flag;  // epoch + 1 of the message inside; stored after the data (release)
  std::byte data[kCellBytes - sizeof(Word)];
};
static_assert(sizeof(Cell) == kCellBytes);

/// Says where item n of a rank's stream is. Overwritten with item n + kStreamLines.
struct alignas(kCacheLine) StreamLine {
  Word flag;             // n + 1; stored last (release)
  std::uint64_t offset;  // of the block in the owner's arena
  std::uint64_t bytes;
  Key key;               // of user memory, where the item is not in a block
};

struct Board {
  // Both counters: written by the owner, read by members that want to reuse cells or blocks.
  alignas(kCacheLine) Word done;     // all collectives of epochs below this have finished here
  Word drained;                      // all stream items below this have been read here
  Word inbox;                        // 1 + offset of the inbox in the owner's arena; 0: none yet
  StreamLine stream[kStreamLines];
  Cell cells[kCells];
};

}  // namespace tutti
