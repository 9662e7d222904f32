// Rings of shared memory that one rank writes and others read: how large they should be, and what
// lies between the pieces that are cut from them (docs/decisions/0068-rings.md and
// 0075-rings-of-one-cache.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tutti {

/// Bytes left out behind each piece. A reader's processor fetches ahead of what it copies, and
/// would take the lines from the writer just as that fills them.
inline constexpr std::size_t kRingGap = 1024;
/// Behind a piece of so many bytes: a processor fetches little ahead of a small one.
constexpr std::size_t ring_gap(std::size_t piece) noexcept { return std::min(piece, kRingGap); }

/// Bytes that a ring should have. A line that has left the reader's own cache since it was read is
/// written faster than one that is still there, so twice of what that holds; but not where it may
/// have left the shared cache, too. Both arguments: of Traits.
constexpr std::size_t ring_bytes_for(std::size_t core_cache, bool keeps_evicted) noexcept {
  constexpr std::size_t kLeast = std::size_t{1} << 20, kMost = std::size_t{4} << 20;
  const std::size_t bytes =
      keeps_evicted ? std::bit_ceil(2 * core_cache) : std::bit_floor(core_cache);
  return std::clamp(bytes, kLeast, kMost);
}

}  // namespace tutti
