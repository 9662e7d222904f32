// Reduce-scatter between nodes: everybody gets its block of everybody's vector and folds them in
// rank order; or, where only whole vectors can be folded, by an allreduce.
#include "coll/algorithms.hpp"
#include "coll/allreduce/ordered.hpp"
#include "coll/pattern/exchange.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/recursive_doubling.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_scatter_block_direct(Collective& c) {
  Temporary blocks;
  co_await blocks.allocate(c, c.call.bytes * static_cast<std::size_t>(c.size()));
  co_await exchange_blocks(c, c.call.send, blocks.memory(), c.call.bytes);
  Folder fold(c, c.call.recv, c.call.bytes);
  for (int member = 0; member < c.size(); ++member) {
    fold(at(blocks.memory(), static_cast<std::size_t>(member) * c.call.bytes));
  }
  fold.finish();
  c.finish();
  co_return Status::success();
}

Task reduce_scatter_block_recursive_doubling(Collective& c) {
  const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
  Temporary vector;
  co_await vector.allocate(c, total);
  c.place(vector.memory(), c.call.send, total);
  co_await double_up(c, vector.memory(), total);
  c.place(c.call.recv, at(vector.memory(), static_cast<std::size_t>(c.rank()) * c.call.bytes),
          c.call.bytes);
  c.finish();
  co_return Status::success();
}

Task reduce_scatter_block_ordered(Collective& c) {
  Call all = c.call;
  Temporary vector;
  all.coll = Coll::allreduce;
  all.bytes = c.call.bytes * static_cast<std::size_t>(c.size());
  co_await vector.allocate(c, all.bytes);
  all.recv = vector.memory();
  Collective inner(c, all);
  co_await allreduce_ordered(inner);  // finishes
  c.place(c.call.recv, at(vector.memory(), static_cast<std::size_t>(c.rank()) * c.call.bytes),
          c.call.bytes);
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_scatter_block_direct = {
    .coll = Coll::reduce_scatter_block,
    .name = "direct",
    .run = with_parameters<tutti::reduce_scatter_block_direct>,
    .restriction_of = with_parameters<divides_between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

const Algorithm reduce_scatter_block_recursive_doubling = {
    .coll = Coll::reduce_scatter_block,
    .name = "recursive_doubling",
    .run = with_parameters<tutti::reduce_scatter_block_recursive_doubling>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "recursive doubling",
    .former_name = "doubling",
};

const Algorithm reduce_scatter_block_ordered = {
    .coll = Coll::reduce_scatter_block,
    .name = "ordered",
    .run = with_parameters<tutti::reduce_scatter_block_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

}  // namespace algorithm
}  // namespace tutti
