// Scan and exscan in layers: each node's vectors are reduced to its leader, the leaders exchange
// what the nodes before theirs have folded, and a scan on each node goes on from there. That is the
// rank order where the members of each node follow each other; elsewhere all vectors are collected.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task scan_hierarchical_ordered(Collective& c) {
  const int count = c.rank() + (c.call.coll == Coll::scan ? 1 : 0);
  co_await c.layers_turn();
  co_await fold_collected(c, count, c.call.recv);
  c.finish();
  co_return Status::success();
}

namespace {

/// What a leader knows: what its node has folded, and all nodes before it.
struct Leader {
  Temporary total, before;
  bool has_before = false;  // not on the first node
};

Task exchange_totals(Collective& c, Leader& leader) noexcept {
  const Layers& layers = *c.team.layers();
  const std::size_t bytes = c.call.bytes;
  if (layers.leaders) {
    co_await leader.total.allocate(c, bytes);
    co_await leader.before.allocate(c, bytes);
  }
  const Call up = like(c.call, Coll::reduce, 0, c.call.send, leader.total.memory(), bytes);
  co_await in_layer(c, layers.node, up);
  if (!layers.leaders) co_return Status::success();
  const Call across =
      like(c.call, Coll::exscan, 0, leader.total.memory(), leader.before.memory(), bytes);
  co_await in_layer(c, layers.leaders, across);
  leader.has_before = layers.my_node != 0;
  co_return Status::success();
}

}  // namespace

Task scan_hierarchical(Collective& c) {
  const Layers& layers = *c.team.layers();
  if (!layers.consecutive) {
    co_await scan_hierarchical_ordered(c);
    co_return Status::success();
  }
  const std::size_t bytes = c.call.bytes;
  Leader leader;
  co_await c.layers_turn();
  co_await exchange_totals(c, leader);
  // The leader's operand goes into its node's scan with what the nodes before have folded in front.
  const void* operand = c.call.send;
  if (leader.has_before) {
    c.fold(leader.before.memory(), c.call.send, leader.total.memory(), bytes);
    operand = leader.total.memory();
  }
  const Call down = like(c.call, c.call.coll, 0, operand, c.call.recv, bytes);
  co_await in_layer(c, layers.node, down);
  if (leader.has_before && c.call.coll == Coll::exscan)
    c.place(c.call.recv, leader.before.memory(), bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scan_hierarchical = {
    .coll = Coll::scan,
    .name = "hierarchical",
    .run = with_parameters<tutti::scan_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
};

const Algorithm scan_hierarchical_ordered = {
    .coll = Coll::scan,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::scan_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
};

const Algorithm exscan_hierarchical = {
    .coll = Coll::exscan,
    .name = "hierarchical",
    .run = with_parameters<tutti::scan_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
};

const Algorithm exscan_hierarchical_ordered = {
    .coll = Coll::exscan,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::scan_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
};

}  // namespace algorithm
}  // namespace tutti
