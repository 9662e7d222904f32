#include "coll/pattern/hierarchical.hpp"

#include <algorithm>
#include <vector>

#include "coll/pattern/fold.hpp"

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

namespace {

/// `vectors`: of `bytes` each, in the order of collect_by_node().
void fold_in_order(Collective& c, const void* vectors, std::size_t bytes, int count,
                   void* out) noexcept {
  const Layers& layers = *c.team.layers();
  const auto vector_of = [&](int member) {
    const auto node = static_cast<std::size_t>(layers.node_of[static_cast<std::size_t>(member)]);
    const int place = layers.first[node] + layers.local_of[static_cast<std::size_t>(member)];
    return at(vectors, static_cast<std::size_t>(place) * bytes);
  };
  fold_vectors(c, count, vector_of, out, bytes);
}

}  // namespace

Task fold_collected(Collective& c, int count, void* out) noexcept {
  constexpr std::size_t kPiece = std::size_t{64}
                                 << 10;  // of a vector at a time, so that memory stays bounded
  const std::size_t piece =
      c.call.reduction->divisible
          ? std::min(c.call.bytes, whole_elements(kPiece, c.call.reduction->element_bytes))
          : c.call.bytes;
  Temporary vectors;
  co_await vectors.allocate(c, piece * static_cast<std::size_t>(c.size()));
  for (std::size_t offset = 0; offset < c.call.bytes; offset += piece) {
    const std::size_t bytes = std::min(piece, c.call.bytes - offset);
    co_await collect_by_node(c, at(c.call.send, offset), vectors.memory(), bytes);
    if (count != 0) fold_in_order(c, vectors.memory(), bytes, count, at(out, offset));
  }
  co_return Status::success();
}

}  // namespace tutti
