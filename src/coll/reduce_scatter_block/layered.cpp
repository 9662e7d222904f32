// Reduce-scatter: as a layered allreduce between the leaders, of which each node gets its blocks.
#include "coll/pattern/layered.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task reduce_scatter_block_layered(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Temporary vector;
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  co_await t.layers_turn(k);
  co_await vector.allocate(t, total);
  const Call all = like(call, Coll::allreduce, 0, call.send, vector.memory(), total);
  co_await allreduce_layered(t, all, k, p);  // finishes
  place(t, call.recv, at(vector.memory(), static_cast<std::size_t>(t.rank()) * call.bytes),
        call.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_layered_ordered(Team& t, const Call& call, const Ticket& k,
                                          const Parameters& p) {
  Temporary vector;
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  co_await vector.allocate(t, total);
  const Call all = like(call, Coll::allreduce, 0, call.send, vector.memory(), total);
  co_await allreduce_layered_ordered(t, all, k, p);  // finishes
  place(t, call.recv, at(vector.memory(), static_cast<std::size_t>(t.rank()) * call.bytes),
        call.bytes);
  co_return Status::success();
}

}  // namespace tutti
