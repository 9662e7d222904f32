// Allreduce in lanes: each member folds its part of the node's vectors, reduces it with its lane,
// and the node puts the parts together. So all members of a node fold and copy, and not its leader
// alone.
#include "coll/pattern/lanes.hpp"

#include "coll/algorithms.hpp"

namespace tutti {

Task allreduce_lanes(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Layers& layers = *t.layers();
  const Lanes lanes(t, call.bytes, call.reduction->element_bytes);
  void* const part = at(call.recv, lanes.mine(t));
  co_await t.layers_turn(k);
  Team* lane = nullptr;
  co_await t.open_lane(&lane);
  Temporary copy;
  const void* send = call.send;
  if (call.send == call.recv) {
    // What others still fold must not be overwritten by the own part.
    co_await copy.allocate(t, lanes.part);
  }
  void* const folded = copy.memory() != nullptr ? copy.memory() : part;
  const Call scatter = like(call, Coll::reduce_scatter_block, 0, send, folded, lanes.part);
  co_await in_layer(t, layers.node, scatter);
  const Call across = like(call, Coll::allreduce, 0, folded, part, lanes.part);
  co_await t.run_layer(*lane, across);
  const Call gather = like(call, Coll::allgather, 0, part, call.recv, lanes.part);
  co_await in_layer(t, layers.node, gather);
  if (lanes.tail != 0) {
    const Call tail = like(call, Coll::allreduce, 0, at(call.send, lanes.whole),
                           at(call.recv, lanes.whole), lanes.tail);
    co_await allreduce_in_layers(t, tail);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
