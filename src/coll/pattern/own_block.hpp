// Which part of the vectors a member of a reduce-scatter folds, whether blocks are equal or listed.
#pragma once

#include <cstddef>
#include <numeric>

#include "coll/collective.hpp"

namespace tutti {

/// Bytes of a member's block.
inline std::size_t block_bytes(const Call& call, int member) noexcept {
  return call.counts == nullptr ? call.bytes : call.counts[member];
}

/// The own block is [begin, begin + bytes) of every member's vector, which has `total` bytes.
struct OwnBlock {
  std::size_t begin, bytes, total;

  explicit OwnBlock(const Collective& c) noexcept
      : begin(static_cast<std::size_t>(c.rank()) * c.call.bytes),
        bytes(block_bytes(c.call, c.rank())),
        total(static_cast<std::size_t>(c.size()) * c.call.bytes) {
    if (c.call.counts == nullptr) return;
    begin = std::accumulate(c.call.counts, c.call.counts + c.rank(), std::size_t{0});
    total = c.call.bytes;
  }

  /// In place, folding the block to the beginning of the vector, member by member, would overwrite
  /// own operands that are still to be folded. Not where both are at one place, and the own operand
  /// is among the first two.
  bool overwrites_itself(const Collective& c) const noexcept {
    return c.call.send == c.call.recv && begin < bytes && (begin != 0 || c.rank() > 1);
  }
};

}  // namespace tutti
