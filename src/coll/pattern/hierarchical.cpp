#include "coll/pattern/hierarchical.hpp"

#include <vector>

namespace tutti {

Task pass_on_node(Collective& c, int root, bool to_leader, void* memory,
                  std::size_t bytes) noexcept {
  const Layers& layers = *c.team.layers();
  const int local = layers.local_of[static_cast<std::size_t>(root)];
  if (layers.my_node != layers.node_of[static_cast<std::size_t>(root)] || local == 0)
    co_return Status::success();
  Temporary unused;
  if (c.rank() != root && !layers.leaders) {
    co_await unused.allocate(c, bytes);
    memory = unused.memory();
  }
  const Call call = like(Call{}, Coll::bcast, to_leader ? local : 0, nullptr, memory, bytes);
  co_await in_layer(c, layers.node, call);
  co_return Status::success();
}

Task collect_by_node(Collective& c, const void* mine, void* vector, std::size_t bytes) noexcept {
  const Layers& layers = *c.team.layers();
  std::byte* const ours =
      at(vector,
         static_cast<std::size_t>(layers.first[static_cast<std::size_t>(layers.my_node)]) * bytes);
  const Call gather = like(c.call, Coll::gather, 0, mine, ours, bytes);
  co_await in_layer(c, layers.node, gather);
  if (layers.leaders) {
    std::vector<std::size_t> counts, displs;
    for (int node = 0; node < layers.nodes; ++node) {
      counts.push_back(static_cast<std::size_t>(layers.count(node)) * bytes);
      displs.push_back(static_cast<std::size_t>(layers.first[static_cast<std::size_t>(node)]) *
                       bytes);
    }
    Call all =
        like(c.call, Coll::allgatherv, 0, ours, vector, bytes * static_cast<std::size_t>(c.size()));
    all.counts = counts.data();
    all.displs = displs.data();
    co_await in_layer(c, layers.leaders, all);
  }
  const Call down =
      like(c.call, Coll::bcast, 0, nullptr, vector, bytes * static_cast<std::size_t>(c.size()));
  co_await in_layer(c, layers.node, down);
  co_return Status::success();
}

}  // namespace tutti
