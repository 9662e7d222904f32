// Scatter: from the root to its leader, to the leaders, and on the nodes.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"

namespace tutti {

Task scatter_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  const Padded padded(layers);
  const int root_node = layers.node_of[static_cast<std::size_t>(call.root)];
  const bool at_root = layers.my_node == root_node;
  const std::size_t block = padded.per_node() * call.bytes;
  Temporary here, all;
  co_await t.layers_turn(k);
  if (layers.leaders) co_await here.allocate(t, block);
  if (at_root && (layers.leaders || t.rank() == call.root))
    co_await all.allocate(t, padded.places() * call.bytes);
  for (int member = 0; t.rank() == call.root && member < t.size(); ++member) {
    place(t, at(all.memory(), padded.of(member) * call.bytes),
          at(call.send, static_cast<std::size_t>(member) * call.bytes), call.bytes);
  }
  co_await pass_on_node(t, call.root, true, all.memory(), padded.places() * call.bytes);
  if (layers.leaders) {
    const Call across = like(call, Coll::scatter, root_node, all.memory(), here.memory(), block);
    co_await in_layer(t, layers.leaders, across);
  }
  const Call down = like(call, Coll::scatter, 0, here.memory(), call.recv, call.bytes);
  co_await in_layer(t, layers.node, down);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
