// Allgather and allgatherv: gathered on the node, exchanged between the leaders, broadcast on the
// node.
#include "coll/allgather/hierarchical.hpp"

#include <algorithm>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/hierarchical.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allgather_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  co_await c.layers_turn();
  if (layers.consecutive) {
    co_await collect_by_node(c, c.call.send, c.call.recv, c.call.bytes);
  } else {
    Temporary by_node;
    co_await by_node.allocate(c, c.call.bytes * static_cast<std::size_t>(c.size()));
    co_await collect_by_node(c, c.call.send, by_node.memory(), c.call.bytes);
    for (std::size_t i = 0; i < layers.members.size(); ++i) {
      c.place(at(c.call.recv, static_cast<std::size_t>(layers.members[i]) * c.call.bytes),
              at(by_node.memory(), i * c.call.bytes), c.call.bytes);
    }
  }
  c.finish();
  co_return Status::success();
}

Task allgatherv_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  // All blocks without gaps, node by node.
  std::vector<std::size_t> counts, displs, node_counts(static_cast<std::size_t>(layers.nodes)),
      node_displs;
  std::size_t total = 0;
  for (const int member : layers.members) {
    const std::size_t bytes = c.call.counts[member];
    counts.push_back(bytes);
    displs.push_back(total);
    node_counts[static_cast<std::size_t>(layers.node_of[static_cast<std::size_t>(member)])] +=
        bytes;
    total += bytes;
  }
  for (int node = 0; node < layers.nodes; ++node) {
    node_displs.push_back(
        displs[static_cast<std::size_t>(layers.first[static_cast<std::size_t>(node)])]);
  }
  const auto mine = static_cast<std::size_t>(layers.my_node);
  const auto first = static_cast<std::size_t>(layers.first[mine]);
  Temporary packed;
  co_await c.layers_turn();
  co_await packed.allocate(c, total);
  Call here = like(c.call, Coll::allgatherv, 0, c.call.send, packed.memory(), node_counts[mine]);
  here.counts = counts.data() + first;
  here.displs = displs.data() + first;
  co_await in_layer(c, layers.node, here);
  if (layers.leaders) {
    Call across = like(c.call, Coll::allgatherv, 0, at(packed.memory(), node_displs[mine]),
                       packed.memory(), total);
    across.counts = node_counts.data();
    across.displs = node_displs.data();
    co_await in_layer(c, layers.leaders, across);
  }
  const Call down = like(c.call, Coll::bcast, 0, nullptr, packed.memory(), total);
  co_await in_layer(c, layers.node, down);
  for (std::size_t i = 0; i < layers.members.size(); ++i) {
    c.place(at(c.call.recv, c.call.displs[layers.members[i]]), at(packed.memory(), displs[i]),
            counts[i]);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allgather_hierarchical = {
    .coll = Coll::allgather,
    .name = "hierarchical",
    .run = with_parameters<tutti::allgather_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

const Algorithm allgatherv_hierarchical = {
    .coll = Coll::allgatherv,
    .name = "hierarchical",
    .run = with_parameters<tutti::allgatherv_hierarchical>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

}  // namespace algorithm
}  // namespace tutti
