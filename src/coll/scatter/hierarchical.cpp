// Scatter: from the root to its leader, to the leaders, and on the nodes.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task scatter_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  const Padded padded(layers);
  const int root_node = layers.node_of[static_cast<std::size_t>(c.call.root)];
  const bool at_root = layers.my_node == root_node;
  const std::size_t block = padded.per_node() * c.call.bytes;
  Temporary here, all;
  co_await c.layers_turn();
  if (layers.leaders) co_await here.allocate(c, block);
  if (at_root && (layers.leaders || c.rank() == c.call.root))
    co_await all.allocate(c, padded.places() * c.call.bytes);
  for (int member = 0; c.rank() == c.call.root && member < c.size(); ++member) {
    c.place(at(all.memory(), padded.of(member) * c.call.bytes),
            at(c.call.send, static_cast<std::size_t>(member) * c.call.bytes), c.call.bytes);
  }
  co_await pass_on_node(c, c.call.root, true, all.memory(), padded.places() * c.call.bytes);
  if (layers.leaders) {
    const Call across = like(c.call, Coll::scatter, root_node, all.memory(), here.memory(), block);
    co_await in_layer(c, layers.leaders, across);
  }
  const Call down = like(c.call, Coll::scatter, 0, here.memory(), c.call.recv, c.call.bytes);
  co_await in_layer(c, layers.node, down);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scatter_hierarchical = {
    .coll = Coll::scatter,
    .name = "hierarchical",
    .run = with_parameters<tutti::scatter_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
