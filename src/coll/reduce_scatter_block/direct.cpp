// Reduce-scatter between nodes: everybody gets its block of everybody's vector and folds them in
// rank order; or, where only whole vectors can be folded, by an allreduce.
#include "coll/algorithms.hpp"
#include "coll/pattern/doubling.hpp"
#include "coll/pattern/exchange.hpp"
#include "coll/pattern/fold.hpp"

namespace tutti {

Task reduce_scatter_block_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Temporary blocks;
  co_await blocks.allocate(t, call.bytes * static_cast<std::size_t>(t.size()));
  co_await exchange_blocks(t, k, call.send, blocks.memory(), call.bytes);
  Folder fold(t, *call.reduction, call.recv, call.bytes);
  for (int member = 0; member < t.size(); ++member) {
    fold(at(blocks.memory(), static_cast<std::size_t>(member) * call.bytes));
  }
  fold.finish();
  t.finish(k);
  co_return Status::success();
}

Task reduce_scatter_block_doubling(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  Temporary vector;
  co_await vector.allocate(t, total);
  place(t, vector.memory(), call.send, total);
  co_await double_up(t, k, *call.reduction, vector.memory(), total);
  place(t, call.recv, at(vector.memory(), static_cast<std::size_t>(t.rank()) * call.bytes),
        call.bytes);
  t.finish(k);
  co_return Status::success();
}

Task reduce_scatter_block_ordered(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Call all = call;
  Temporary vector;
  all.coll = Coll::allreduce;
  all.bytes = call.bytes * static_cast<std::size_t>(t.size());
  co_await vector.allocate(t, all.bytes);
  all.recv = vector.memory();
  co_await allreduce_ordered(t, all, k, p);  // finishes
  place(t, call.recv, at(vector.memory(), static_cast<std::size_t>(t.rank()) * call.bytes),
        call.bytes);
  co_return Status::success();
}

}  // namespace tutti
