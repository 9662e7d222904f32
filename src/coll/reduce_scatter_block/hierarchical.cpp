// Reduce-scatter: as a hierarchical allreduce between the leaders, of which each node gets its
// blocks.
#include "coll/pattern/hierarchical.hpp"
#include "coll/algorithms.hpp"
#include "coll/allreduce/hierarchical.hpp"
#include "coll/pattern/own_block.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_scatter_block_hierarchical(Collective& c) {
  const OwnBlock own(c);
  Temporary vector;
  co_await c.layers_turn();
  co_await vector.allocate(c, own.total);
  const Call all = like(c.call, Coll::allreduce, 0, c.call.send, vector.memory(), own.total);
  Collective inner(c, all);
  co_await allreduce_hierarchical(inner);  // finishes
  c.place(c.call.recv, at(vector.memory(), own.begin), own.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_hierarchical_ordered(Collective& c) {
  const OwnBlock own(c);
  Temporary vector;
  co_await vector.allocate(c, own.total);
  const Call all = like(c.call, Coll::allreduce, 0, c.call.send, vector.memory(), own.total);
  Collective inner(c, all);
  co_await allreduce_hierarchical_ordered(inner);  // finishes
  c.place(c.call.recv, at(vector.memory(), own.begin), own.bytes);
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_scatter_block_hierarchical = {
    .coll = Coll::reduce_scatter_block,
    .name = "hierarchical",
    .run = with_parameters<tutti::reduce_scatter_block_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered",
};

const Algorithm reduce_scatter_block_hierarchical_ordered = {
    .coll = Coll::reduce_scatter_block,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::reduce_scatter_block_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
    .former_name = "layered_ordered",
};

const Algorithm reduce_scatter_hierarchical = {
    .coll = Coll::reduce_scatter,
    .name = "hierarchical",
    .run = with_parameters<tutti::reduce_scatter_block_hierarchical>,
    .restriction_of = with_parameters<folds_in_layers>,
    .source = "shared memory in the node, network between leaders",
};

const Algorithm reduce_scatter_hierarchical_ordered = {
    .coll = Coll::reduce_scatter,
    .name = "hierarchical_ordered",
    .run = with_parameters<tutti::reduce_scatter_block_hierarchical_ordered>,
    .restriction_of = with_parameters<in_layers>,
    .source = "shared memory in the node, network between leaders",
};

}  // namespace algorithm
}  // namespace tutti
