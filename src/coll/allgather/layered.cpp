// Allgather and allgatherv: gathered on the node, exchanged between the leaders, broadcast on the
// node.
#include <algorithm>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/layered.hpp"

namespace tutti {

Task allgather_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  co_await t.layers_turn(k);
  if (layers.consecutive) {
    co_await collect_by_node(t, call, call.send, call.recv, call.bytes);
  } else {
    Temporary by_node;
    co_await by_node.allocate(t, call.bytes * static_cast<std::size_t>(t.size()));
    co_await collect_by_node(t, call, call.send, by_node.memory(), call.bytes);
    for (std::size_t i = 0; i < layers.members.size(); ++i) {
      place(t, at(call.recv, static_cast<std::size_t>(layers.members[i]) * call.bytes),
            at(by_node.memory(), i * call.bytes), call.bytes);
    }
  }
  t.finish(k);
  co_return Status::success();
}

Task allgatherv_layered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const Layers& layers = *t.layers();
  // All blocks without gaps, node by node.
  std::vector<std::size_t> counts, displs, node_counts(static_cast<std::size_t>(layers.nodes)),
      node_displs;
  std::size_t total = 0;
  for (const int member : layers.members) {
    const std::size_t bytes = call.counts[member];
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
  co_await t.layers_turn(k);
  co_await packed.allocate(t, total);
  Call here = like(call, Coll::allgatherv, 0, call.send, packed.memory(), node_counts[mine]);
  here.counts = counts.data() + first;
  here.displs = displs.data() + first;
  co_await in_layer(t, layers.node, here);
  if (layers.leaders) {
    Call across = like(call, Coll::allgatherv, 0, at(packed.memory(), node_displs[mine]),
                       packed.memory(), total);
    across.counts = node_counts.data();
    across.displs = node_displs.data();
    co_await in_layer(t, layers.leaders, across);
  }
  const Call down = like(call, Coll::bcast, 0, nullptr, packed.memory(), total);
  co_await in_layer(t, layers.node, down);
  for (std::size_t i = 0; i < layers.members.size(); ++i) {
    place(t, at(call.recv, call.displs[layers.members[i]]), at(packed.memory(), displs[i]),
          counts[i]);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
