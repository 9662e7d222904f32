// Allreduce: reduced on the node, between the leaders, and broadcast on the node. Keeps the rank
// order where the members of each node follow each other; where they do not and it matters, all
// vectors are collected and folded.
#include "coll/allreduce/hierarchical.hpp"

#include "coll/algorithms.hpp"
#include "coll/pattern/hierarchical.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// Of all members; `out` may be nullptr.
Task fold_all_in_order(Collective& c, void* out) noexcept {
  co_await c.layers_turn();
  co_await fold_collected(c, out == nullptr ? 0 : c.size(), out);
  c.finish();
  co_return Status::success();
}

bool order_lost(const Collective& c) noexcept {
  return !c.call.reduction->commutative && !c.team.layers()->consecutive;
}

}  // namespace

Task allreduce_hierarchical_ordered(Collective& c) { return fold_all_in_order(c, c.call.recv); }

Task reduce_hierarchical_ordered(Collective& c) {
  return fold_all_in_order(c, c.rank() == c.call.root ? c.call.recv : nullptr);
}

Task allreduce_in_layers(Collective& c, const Call& call) noexcept {
  const Layers& layers = *c.team.layers();
  const Call up = like(call, Coll::reduce, 0, call.send, call.recv, call.bytes);
  const Call across = like(call, Coll::allreduce, 0, call.recv, call.recv, call.bytes);
  const Call down = like(call, Coll::bcast, 0, nullptr, call.recv, call.bytes);
  co_await in_layer(c, layers.node, up);
  if (layers.leaders) co_await in_layer(c, layers.leaders, across);
  co_await in_layer(c, layers.node, down);
  co_return Status::success();
}

Task allreduce_hierarchical(Collective& c) {
  if (order_lost(c)) {
    co_await allreduce_hierarchical_ordered(c);
    co_return Status::success();
  }
  co_await c.layers_turn();
  co_await allreduce_in_layers(c, c.call);
  c.finish();
  co_return Status::success();
}

Task reduce_hierarchical(Collective& c) {
  if (order_lost(c)) {
    co_await reduce_hierarchical_ordered(c);
    co_return Status::success();
  }
  const Layers& layers = *c.team.layers();
  const bool root = c.rank() == c.call.root;
  Temporary memory;
  void* partial = c.call.recv;
  co_await c.layers_turn();
  if (layers.leaders && !root) {
    co_await memory.allocate(c, c.call.bytes);
    partial = memory.memory();
  }
  const int node = layers.node_of[static_cast<std::size_t>(c.call.root)];
  const Call up = like(c.call, Coll::reduce, 0, c.call.send, partial, c.call.bytes);
  const Call across = like(c.call, Coll::reduce, node, partial, partial, c.call.bytes);
  co_await in_layer(c, layers.node, up);
  if (layers.leaders) co_await in_layer(c, layers.leaders, across);
  co_await pass_on_node(c, c.call.root, false, partial, c.call.bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_hierarchical = {
    .coll = Coll::reduce,
    .name = "hierarchical",
    .run = with_parameters<tutti::reduce_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

const Algorithm reduce_hierarchical_ordered = {
    .coll = Coll::reduce,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::reduce_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered_ordered",
};

const Algorithm allreduce_hierarchical = {
    .coll = Coll::allreduce,
    .name = "hierarchical",
    .run = with_parameters<tutti::allreduce_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

const Algorithm allreduce_hierarchical_ordered = {
    .coll = Coll::allreduce,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::allreduce_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered_ordered",
};

}  // namespace algorithm
}  // namespace tutti
