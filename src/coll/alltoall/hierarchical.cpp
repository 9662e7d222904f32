// Alltoall: gathered on the node, exchanged between the leaders in one message for each pair of
// nodes, and scattered on the node.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/padded.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task alltoall_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  const Padded padded(layers);
  const auto size = static_cast<std::size_t>(c.size());
  const auto mine = static_cast<std::size_t>(layers.count(layers.my_node));
  const std::size_t vector = size * c.call.bytes;
  const std::size_t per_node = padded.per_node();
  const std::size_t pair = per_node * per_node * c.call.bytes;  // from one node to another
  Temporary vectors, out, in;
  co_await c.layers_turn();
  if (layers.leaders) {
    co_await vectors.allocate(c, mine * vector);
    co_await out.allocate(c, static_cast<std::size_t>(layers.nodes) * pair);
    co_await in.allocate(c, static_cast<std::size_t>(layers.nodes) * pair);
  }
  const Call up = like(c.call, Coll::gather, 0, c.call.send, vectors.memory(), vector);
  co_await in_layer(c, layers.node, up);
  // In a message: the places of the receiving node, and in each of them those of the sending node.
  for (std::size_t local = 0; layers.leaders && local < mine; ++local) {
    for (int to = 0; to < c.size(); ++to) {
      c.place(at(out.memory(), (padded.of(to) * per_node + local) * c.call.bytes),
              at(vectors.memory(), local * vector + static_cast<std::size_t>(to) * c.call.bytes),
              c.call.bytes);
    }
  }
  if (layers.leaders) {
    const Call across = like(c.call, Coll::alltoall, 0, out.memory(), in.memory(), pair);
    co_await in_layer(c, layers.leaders, across);
  }
  for (std::size_t local = 0; layers.leaders && local < mine; ++local) {
    for (int from = 0; from < c.size(); ++from) {
      const auto i = static_cast<std::size_t>(from);
      const std::size_t message = static_cast<std::size_t>(layers.node_of[i]) * per_node + local;
      c.place(at(vectors.memory(), local * vector + i * c.call.bytes),
              at(in.memory(), (message * per_node + static_cast<std::size_t>(layers.local_of[i])) *
                                  c.call.bytes),
              c.call.bytes);
    }
  }
  const Call down = like(c.call, Coll::scatter, 0, vectors.memory(), c.call.recv, vector);
  co_await in_layer(c, layers.node, down);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm alltoall_hierarchical = {
    .coll = Coll::alltoall,
    .name = "hierarchical",
    .run = with_parameters<tutti::alltoall_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
