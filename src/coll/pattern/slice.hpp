// The part of a published chunk that belongs to one member, where a vector holds a block for each.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti {

/// The `index`-th block is [index * block, (index + 1) * block) of the vector; the chunk is
/// [offset, offset + length). `bytes` is 0 when they do not meet.
struct Slice {
  std::size_t in_chunk = 0;  // where the part begins in the chunk
  std::size_t in_block = 0;  // where it begins in the member's block
  std::size_t bytes = 0;

  Slice(std::size_t index, std::size_t block, std::size_t offset, std::size_t length) noexcept {
    const std::size_t begin = index * block;
    const std::size_t from = std::max(begin, offset);
    const std::size_t to = std::min(begin + block, offset + length);
    if (from >= to) return;
    in_chunk = from - offset;
    in_block = from - begin;
    bytes = to - from;
  }
};

}  // namespace tutti
