// Barrier: on the node, between the leaders, and on the node again.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  TUTTI_CO_TRY(co_await t.layers_turn(k));
  TUTTI_CO_TRY(co_await in_layer(t, layers.node, call));
  if (layers.leaders) TUTTI_CO_TRY(co_await in_layer(t, layers.leaders, call));
  TUTTI_CO_TRY(co_await in_layer(t, layers.node, call));
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
