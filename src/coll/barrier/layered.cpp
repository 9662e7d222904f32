// Barrier: on the node, between the leaders, and on the node again.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  co_await t.layers_turn(k);
  co_await in_layer(t, layers.node, call);
  if (layers.leaders) co_await in_layer(t, layers.leaders, call);
  co_await in_layer(t, layers.node, call);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
