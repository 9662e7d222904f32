// Gather: on the nodes, from the leaders to the root's, and to the root.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task gather_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  const Padded padded(layers);
  const int root_node = layers.node_of[static_cast<std::size_t>(c.call.root)];
  const bool at_root = layers.my_node == root_node;
  const std::size_t block = padded.per_node() * c.call.bytes;  // of a node
  Temporary here, all;
  co_await c.layers_turn();
  if (layers.leaders) co_await here.allocate(c, block);
  const bool holds_all = at_root && (layers.leaders || c.rank() == c.call.root);
  if (holds_all) co_await all.allocate(c, padded.places() * c.call.bytes);
  const Call up = like(c.call, Coll::gather, 0, c.call.send, here.memory(), c.call.bytes);
  co_await in_layer(c, layers.node, up);
  if (layers.leaders) {
    const Call across = like(c.call, Coll::gather, root_node, here.memory(), all.memory(), block);
    co_await in_layer(c, layers.leaders, across);
  }
  co_await pass_on_node(c, c.call.root, false, all.memory(), padded.places() * c.call.bytes);
  for (int member = 0; c.rank() == c.call.root && member < c.size(); ++member) {
    c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes),
            at(all.memory(), padded.of(member) * c.call.bytes), c.call.bytes);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm gather_hierarchical = {
    .coll = Coll::gather,
    .name = "hierarchical",
    .run = with_parameters<tutti::gather_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
