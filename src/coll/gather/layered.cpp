// Gather: on the nodes, from the leaders to the root's, and to the root.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"

namespace tutti {

Task gather_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  const Padded padded(layers);
  const int root_node = layers.node_of[static_cast<std::size_t>(call.root)];
  const bool at_root = layers.my_node == root_node;
  const std::size_t block = padded.per_node() * call.bytes;  // of a node
  Temporary here, all;
  co_await t.layers_turn(k);
  if (layers.leaders) co_await here.allocate(t, block);
  const bool holds_all = at_root && (layers.leaders || t.rank() == call.root);
  if (holds_all) co_await all.allocate(t, padded.places() * call.bytes);
  const Call up = like(call, Coll::gather, 0, call.send, here.memory(), call.bytes);
  co_await in_layer(t, layers.node, up);
  if (layers.leaders) {
    const Call across = like(call, Coll::gather, root_node, here.memory(), all.memory(), block);
    co_await in_layer(t, layers.leaders, across);
  }
  co_await pass_on_node(t, call.root, false, all.memory(), padded.places() * call.bytes);
  for (int member = 0; t.rank() == call.root && member < t.size(); ++member) {
    place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes),
          at(all.memory(), padded.of(member) * call.bytes), call.bytes);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
