// Broadcast: on the root's node, between the leaders, and on the other nodes.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_in_layers(Collective& c, const Call& call) noexcept {
  const Layers& layers = *c.team.layers();
  const auto root = static_cast<std::size_t>(call.root);
  const bool at_root = layers.my_node == layers.node_of[root];
  const Call up = like(call, Coll::bcast, layers.local_of[root], nullptr, call.recv, call.bytes);
  const Call across = like(call, Coll::bcast, layers.node_of[root], nullptr, call.recv, call.bytes);
  const Call down = like(call, Coll::bcast, 0, nullptr, call.recv, call.bytes);
  if (at_root) co_await in_layer(c, layers.node, up);
  if (layers.leaders) co_await in_layer(c, layers.leaders, across);
  if (!at_root) co_await in_layer(c, layers.node, down);
  co_return Status::success();
}

Task bcast_hierarchical(Collective& c) {
  co_await c.layers_turn();
  co_await bcast_in_layers(c, c.call);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_hierarchical = {
    .coll = Coll::bcast,
    .name = "hierarchical",
    .run = with_parameters<tutti::bcast_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
