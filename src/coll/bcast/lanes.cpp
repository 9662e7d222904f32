// Broadcast in lanes: scattered on the root's node, broadcast by each lane, put together on every
// node.
#include "coll/pattern/lanes.hpp"

#include "coll/algorithms.hpp"

namespace tutti {

Task bcast_lanes(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Layers& layers = *t.layers();
  const Lanes lanes(t, call.bytes, 1);
  const auto root = static_cast<std::size_t>(call.root);
  const int root_node = layers.node_of[root];
  void* const part = at(call.recv, lanes.mine(t));
  co_await t.layers_turn(k);
  Team* lane = nullptr;
  co_await t.open_lane(&lane);
  if (layers.my_node == root_node) {
    const Call scatter =
        like(call, Coll::scatter, layers.local_of[root], call.recv, part, lanes.part);
    co_await in_layer(t, layers.node, scatter);
  }
  const Call across = like(call, Coll::bcast, root_node, nullptr, part, lanes.part);
  co_await t.run_layer(*lane, across);
  const Call gather = like(call, Coll::allgather, 0, part, call.recv, lanes.part);
  co_await in_layer(t, layers.node, gather);
  if (lanes.tail != 0) {
    const Call tail =
        like(call, Coll::bcast, call.root, nullptr, at(call.recv, lanes.whole), lanes.tail);
    co_await bcast_in_layers(t, tail);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
