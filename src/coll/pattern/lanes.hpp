// Every member a leader (multi-lane: Traff and Hunold, CLUSTER 2020): those that have the same
// place on their nodes are a lane, and each lane moves its part of the vector between the nodes.
#pragma once

#include <cstddef>

#include "coll/pattern/hierarchical.hpp"

namespace tutti {

/// A vector in as many equal parts as a node has members; what is left over is `tail`.
struct Lanes {
  std::size_t part;   // bytes of each lane's
  std::size_t whole;  // of all of them
  std::size_t tail;

  Lanes(const Collective& c, std::size_t bytes, std::size_t element_bytes) noexcept {
    const auto count = static_cast<std::size_t>(c.team.layers()->each());
    part = bytes / element_bytes / count * element_bytes;
    whole = part * count;
    tail = bytes - whole;
  }
  /// Where this rank's part begins.
  std::size_t mine(const Collective& c) const noexcept {
    return part *
           static_cast<std::size_t>(c.team.layers()->local_of[static_cast<std::size_t>(c.rank())]);
  }
};

}  // namespace tutti
