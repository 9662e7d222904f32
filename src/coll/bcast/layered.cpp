// Broadcast: on the root's node, between the leaders, and on the other nodes.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task bcast_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  const auto root = static_cast<std::size_t>(call.root);
  const bool at_root = layers.my_node == layers.node_of[root];
  const Call up = like(call, Coll::bcast, layers.local_of[root], nullptr, call.recv, call.bytes);
  const Call across = like(call, Coll::bcast, layers.node_of[root], nullptr, call.recv, call.bytes);
  const Call down = like(call, Coll::bcast, 0, nullptr, call.recv, call.bytes);
  TUTTI_CO_TRY(co_await t.layers_turn(k));
  if (at_root) TUTTI_CO_TRY(co_await in_layer(t, layers.node, up));
  if (layers.leaders) TUTTI_CO_TRY(co_await in_layer(t, layers.leaders, across));
  if (!at_root) TUTTI_CO_TRY(co_await in_layer(t, layers.node, down));
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
