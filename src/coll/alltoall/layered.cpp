// Alltoall: gathered on the node, exchanged between the leaders in one message for each pair of
// nodes, and scattered on the node.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"

namespace tutti {

Task alltoall_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  const Padded padded(layers);
  const auto size = static_cast<std::size_t>(t.size());
  const auto mine = static_cast<std::size_t>(layers.count(layers.my_node));
  const std::size_t vector = size * call.bytes;
  const std::size_t per_node = padded.per_node();
  const std::size_t pair = per_node * per_node * call.bytes;  // from one node to another
  Temporary vectors, out, in;
  co_await t.layers_turn(k);
  if (layers.leaders) {
    co_await vectors.allocate(t, mine * vector);
    co_await out.allocate(t, static_cast<std::size_t>(layers.nodes) * pair);
    co_await in.allocate(t, static_cast<std::size_t>(layers.nodes) * pair);
  }
  const Call up = like(call, Coll::gather, 0, call.send, vectors.memory(), vector);
  co_await in_layer(t, layers.node, up);
  // In a message: the places of the receiving node, and in each of them those of the sending node.
  for (std::size_t local = 0; layers.leaders && local < mine; ++local) {
    for (int to = 0; to < t.size(); ++to) {
      place(t, at(out.memory(), (padded.of(to) * per_node + local) * call.bytes),
            at(vectors.memory(), local * vector + static_cast<std::size_t>(to) * call.bytes),
            call.bytes);
    }
  }
  if (layers.leaders) {
    const Call across = like(call, Coll::alltoall, 0, out.memory(), in.memory(), pair);
    co_await in_layer(t, layers.leaders, across);
  }
  for (std::size_t local = 0; layers.leaders && local < mine; ++local) {
    for (int from = 0; from < t.size(); ++from) {
      const auto i = static_cast<std::size_t>(from);
      const std::size_t message = static_cast<std::size_t>(layers.node_of[i]) * per_node + local;
      place(t, at(vectors.memory(), local * vector + i * call.bytes),
            at(in.memory(),
               (message * per_node + static_cast<std::size_t>(layers.local_of[i])) * call.bytes),
            call.bytes);
    }
  }
  const Call down = like(call, Coll::scatter, 0, vectors.memory(), call.recv, vector);
  co_await in_layer(t, layers.node, down);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
