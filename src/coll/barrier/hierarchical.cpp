// Barrier: on the node, between the leaders, and on the node again.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task barrier_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  co_await c.layers_turn();
  co_await in_layer(c, layers.node, c.call);
  if (layers.leaders) co_await in_layer(c, layers.leaders, c.call);
  co_await in_layer(c, layers.node, c.call);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm barrier_hierarchical = {
    .coll = Coll::barrier,
    .name = "hierarchical",
    .run = with_parameters<tutti::barrier_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
