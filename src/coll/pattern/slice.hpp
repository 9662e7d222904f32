// The part of a published chunk that belongs to one member, where a vector holds a block for each.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti {

/// The chunk is [offset, offset + length) of the vector. `bytes` is 0 when it does not meet the
/// member's block.
struct Slice {
  std::size_t in_chunk = 0;  // where the part begins in the chunk
  std::size_t in_block = 0;  // where it begins in the member's block
  std::size_t bytes = 0;

  /// Of the block [begin, begin + block).
  static Slice of(std::size_t begin, std::size_t block, std::size_t offset,
                  std::size_t length) noexcept {
    Slice slice;
    const std::size_t from = std::max(begin, offset);
    const std::size_t to = std::min(begin + block, offset + length);
    if (from >= to) return slice;
    slice.in_chunk = from - offset;
    slice.in_block = from - begin;
    slice.bytes = to - from;
    return slice;
  }
  /// Of the `index`-th of equal blocks.
  Slice(std::size_t index, std::size_t block, std::size_t offset, std::size_t length) noexcept
      : Slice(of(index * block, block, offset, length)) {}

 private:
  Slice() = default;
};

}  // namespace tutti
