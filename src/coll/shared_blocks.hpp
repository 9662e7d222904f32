// The parameter of the algorithms whose data passes through shared blocks.
#pragma once

#include "coll/algorithm.hpp"

namespace tutti {

struct SharedBlocks {
  std::int64_t block = 0;  // how much of a block is used; 0: all of it

  /// Of a block of `whole` bytes.
  std::size_t bytes(std::size_t whole) const noexcept {
    const auto wanted = static_cast<std::size_t>(block);
    return wanted == 0 || wanted > whole ? whole : wanted;
  }
  std::size_t bytes(const Collective& c) const noexcept { return bytes(c.team.block_bytes()); }
};
inline constexpr ParameterList kSharedBlocks =
    parameters_of<SharedBlocks>({{&SharedBlocks::block, "block", "bytes"}});

}  // namespace tutti
