// Allreduce in lanes: each member folds its part of the node's vectors, reduces it with its lane,
// and the node puts the parts together. So all members of a node fold and copy, and not its leader
// alone.
#include "coll/pattern/lanes.hpp"

#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_lanes(Collective& c) {
  Layers& layers = *c.team.layers();
  const Lanes lanes(c, c.call.bytes, c.call.reduction->element_bytes);
  void* const part = at(c.call.recv, lanes.mine(c));
  co_await c.layers_turn();
  Team* lane = nullptr;
  co_await layers.open_lane(&lane);
  Temporary copy;
  const void* send = c.call.send;
  if (c.call.send == c.call.recv) {
    // What others still fold must not be overwritten by the own part.
    co_await copy.allocate(c, lanes.part);
  }
  void* const folded = copy.memory() != nullptr ? copy.memory() : part;
  const Call scatter = like(c.call, Coll::reduce_scatter_block, 0, send, folded, lanes.part);
  co_await in_layer(c, layers.node, scatter);
  const Call across = like(c.call, Coll::allreduce, 0, folded, part, lanes.part);
  co_await lane->run(across);
  const Call gather = like(c.call, Coll::allgather, 0, part, c.call.recv, lanes.part);
  co_await in_layer(c, layers.node, gather);
  if (lanes.tail != 0) {
    const Call tail = like(c.call, Coll::allreduce, 0, at(c.call.send, lanes.whole),
                           at(c.call.recv, lanes.whole), lanes.tail);
    co_await allreduce_in_layers(c, tail);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_lanes = {
    .coll = Coll::allreduce,
    .name = "lanes",
    .run = with_parameters<tutti::allreduce_lanes>,
    .restriction_of = with_parameters<folds_in_lanes>,
    .source = "every member a leader: Traff and Hunold 2020",
};

}  // namespace algorithm
}  // namespace tutti
