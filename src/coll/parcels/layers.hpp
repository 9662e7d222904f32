// Parcels in layers: what members of a node have for each other, and what is for other nodes.
#pragma once

#include "coll/collective.hpp"
#include "coll/parcels.hpp"

namespace tutti {

inline Call call_of(Coll coll, const Parcels& parcels) noexcept {
  Call call;
  call.coll = coll;
  call.parcels = &parcels;
  return call;
}

/// This rank's place in the layers.
struct Place {
  explicit Place(Collective& c)
      : layers(*c.team.layers()),
        local(layers.local_of[static_cast<std::size_t>(c.rank())]),
        members(layers.count(layers.my_node)) {}

  int node_of(int member) const noexcept {
    return layers.node_of[static_cast<std::size_t>(member)];
  }
  int local_of(int member) const noexcept {
    return layers.local_of[static_cast<std::size_t>(member)];
  }
  bool far(int member) const noexcept { return node_of(member) != layers.my_node; }
  bool leads() const noexcept { return layers.leaders != nullptr; }

  Layers& layers;
  const int local, members;
};

/// What members of the node have for each other.
Task exchange_on_node(Collective& c, const Place& place) noexcept;
/// What is for other nodes: in bundles of the leaders.
Task exchange_bundled(Collective& c, const Place& place) noexcept;

}  // namespace tutti
