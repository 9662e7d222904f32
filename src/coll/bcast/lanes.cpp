// Broadcast in lanes: scattered on the root's node, broadcast by each lane, put together on every
// node.
#include "coll/pattern/lanes.hpp"

#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_lanes(Collective& c) {
  Layers& layers = *c.team.layers();
  const Lanes lanes(c, c.call.bytes, 1);
  const auto root = static_cast<std::size_t>(c.call.root);
  const int root_node = layers.node_of[root];
  void* const part = at(c.call.recv, lanes.mine(c));
  co_await c.layers_turn();
  Team* lane = nullptr;
  co_await layers.open_lane(&lane);
  if (layers.my_node == root_node) {
    const Call scatter =
        like(c.call, Coll::scatter, layers.local_of[root], c.call.recv, part, lanes.part);
    co_await in_layer(c, layers.node, scatter);
  }
  const Call across = like(c.call, Coll::bcast, root_node, nullptr, part, lanes.part);
  co_await lane->run(across);
  const Call gather = like(c.call, Coll::allgather, 0, part, c.call.recv, lanes.part);
  co_await in_layer(c, layers.node, gather);
  if (lanes.tail != 0) {
    const Call tail =
        like(c.call, Coll::bcast, c.call.root, nullptr, at(c.call.recv, lanes.whole), lanes.tail);
    co_await bcast_in_layers(c, tail);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_lanes = {
    .coll = Coll::bcast,
    .name = "lanes",
    .run = with_parameters<tutti::bcast_lanes>,
    .restriction_of = with_parameters<in_lanes>,
    .source = "every member a leader: Traff and Hunold 2020",
};

}  // namespace algorithm
}  // namespace tutti
