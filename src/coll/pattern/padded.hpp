// Node by node vectors in which every node has room for as many members as the largest one.
#pragma once

#include <algorithm>

#include "team/team.hpp"

namespace tutti {

class Padded {
 public:
  explicit Padded(const Layers& layers) noexcept : layers_(layers) {
    for (int node = 0; node < layers.nodes; ++node) most_ = std::max(most_, layers.count(node));
  }
  /// Members that each node has room for.
  std::size_t per_node() const noexcept { return static_cast<std::size_t>(most_); }
  std::size_t places() const noexcept {
    return per_node() * static_cast<std::size_t>(layers_.nodes);
  }
  /// The place of a member.
  std::size_t of(int member) const noexcept {
    const auto i = static_cast<std::size_t>(member);
    return static_cast<std::size_t>(layers_.node_of[i]) * per_node() +
           static_cast<std::size_t>(layers_.local_of[i]);
  }

 private:
  const Layers& layers_;
  int most_ = 0;
};

}  // namespace tutti
