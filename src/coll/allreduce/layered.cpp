// Allreduce: reduced on the node, between the leaders, and broadcast on the node. Keeps the rank
// order where the members of each node follow each other; where they do not and it matters, all
// vectors are collected and folded.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/layered.hpp"

namespace tutti {
namespace {

/// Folds `bytes` from `offset` on of all vectors in the strict order of the ranks; `out` may be
/// nullptr.
Task fold_in_order(Team& t, const Call& call, std::size_t offset, std::size_t bytes, void* vectors,
                   void* out) noexcept {
  const Layers& layers = *t.layers();
  co_await collect_by_node(t, call, at(call.send, offset), vectors, bytes);
  if (out == nullptr) co_return Status::success();
  Folder fold(t, *call.reduction, at(out, offset), bytes);
  for (int member = 0; member < t.size(); ++member) {
    const auto node = static_cast<std::size_t>(layers.node_of[static_cast<std::size_t>(member)]);
    const int place = layers.first[node] + layers.local_of[static_cast<std::size_t>(member)];
    fold(at(vectors, static_cast<std::size_t>(place) * bytes));
  }
  fold.finish();
  co_return Status::success();
}

Task fold_all_in_order(Team& t, const Call& call, const Ticket& k, void* out) noexcept {
  constexpr std::size_t kPiece = std::size_t{64}
                                 << 10;  // of a vector at a time, so that memory stays bounded
  co_await t.layers_turn(k);
  const std::size_t piece =
      call.reduction->divisible
          ? std::min(call.bytes, whole_elements(kPiece, call.reduction->element_bytes))
          : call.bytes;
  Temporary vectors;
  co_await vectors.allocate(t, piece * static_cast<std::size_t>(t.size()));
  for (std::size_t offset = 0; offset < call.bytes; offset += piece) {
    co_await fold_in_order(t, call, offset, std::min(piece, call.bytes - offset), vectors.memory(),
                           out);
  }
  t.finish(k);
  co_return Status::success();
}

bool order_lost(const Team& t, const Call& call) noexcept {
  return !call.reduction->commutative && !t.layers()->consecutive;
}

}  // namespace

Task allreduce_layered_ordered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_all_in_order(t, call, k, call.recv);
}

Task reduce_layered_ordered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_all_in_order(t, call, k, t.rank() == call.root ? call.recv : nullptr);
}

Task allreduce_in_layers(Team& t, const Call& call) noexcept {
  const Layers& layers = *t.layers();
  const Call up = like(call, Coll::reduce, 0, call.send, call.recv, call.bytes);
  const Call across = like(call, Coll::allreduce, 0, call.recv, call.recv, call.bytes);
  const Call down = like(call, Coll::bcast, 0, nullptr, call.recv, call.bytes);
  co_await in_layer(t, layers.node, up);
  if (layers.leaders) co_await in_layer(t, layers.leaders, across);
  co_await in_layer(t, layers.node, down);
  co_return Status::success();
}

Task allreduce_layered(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  if (order_lost(t, call)) {
    co_await allreduce_layered_ordered(t, call, k, p);
    co_return Status::success();
  }
  co_await t.layers_turn(k);
  co_await allreduce_in_layers(t, call);
  t.finish(k);
  co_return Status::success();
}

Task reduce_layered(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  if (order_lost(t, call)) {
    co_await reduce_layered_ordered(t, call, k, p);
    co_return Status::success();
  }
  const Layers& layers = *t.layers();
  const bool root = t.rank() == call.root;
  Temporary memory;
  void* partial = call.recv;
  co_await t.layers_turn(k);
  if (layers.leaders && !root) {
    co_await memory.allocate(t, call.bytes);
    partial = memory.memory();
  }
  const int node = layers.node_of[static_cast<std::size_t>(call.root)];
  const Call up = like(call, Coll::reduce, 0, call.send, partial, call.bytes);
  const Call across = like(call, Coll::reduce, node, partial, partial, call.bytes);
  co_await in_layer(t, layers.node, up);
  if (layers.leaders) co_await in_layer(t, layers.leaders, across);
  co_await pass_on_node(t, call.root, false, partial, call.bytes);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
