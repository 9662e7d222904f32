// Reduce-scatter between nodes: everybody gets its block of everybody's vector and folds them in
// rank order; or, where only whole vectors can be folded, by an allreduce.
#include "coll/algorithms.hpp"
#include "coll/allreduce/ordered.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/own_block.hpp"
#include "coll/pattern/recursive_doubling.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

/// To every member its block of this rank's vector; from every member the own block, into `blocks`
/// in the order of the members.
static Parcels blocks_of_all(const Collective& c, const OwnBlock& own, void* blocks) {
  Parcels parcels(c.rank(), c.size());
  std::size_t begin = 0;
  for (int member = 0; member < c.size(); ++member) {
    const std::size_t bytes = block_bytes(c.call, member);
    parcels.send(member, at(c.call.send, begin), bytes);
    parcels.receive(member, at(blocks, static_cast<std::size_t>(member) * own.bytes), own.bytes);
    begin += bytes;
  }
  parcels.arrange();
  return parcels;
}

Task reduce_scatter_block_direct(Collective& c) {
  const OwnBlock own(c);
  Temporary blocks;
  co_await blocks.allocate(c, own.bytes * static_cast<std::size_t>(c.size()));
  const Parcels parcels = blocks_of_all(c, own, blocks.memory());
  co_await deliver(c, parcels);
  const auto block_of = [&](int member) {
    return at(blocks.memory(), static_cast<std::size_t>(member) * own.bytes);
  };
  fold_vectors(c, c.size(), block_of, c.call.recv, own.bytes);
  c.finish();
  co_return Status::success();
}

Task reduce_scatter_block_recursive_doubling(Collective& c) {
  const OwnBlock own(c);
  Temporary vector;
  co_await vector.allocate(c, own.total);
  c.place(vector.memory(), c.call.send, own.total);
  co_await double_up(c, vector.memory(), own.total);
  c.place(c.call.recv, at(vector.memory(), own.begin), own.bytes);
  c.finish();
  co_return Status::success();
}

Task reduce_scatter_block_ordered(Collective& c) {
  const OwnBlock own(c);
  Call all = c.call;
  Temporary vector;
  all.coll = Coll::allreduce;
  all.bytes = own.total;
  co_await vector.allocate(c, all.bytes);
  all.recv = vector.memory();
  Collective inner(c, all);
  co_await allreduce_ordered(inner);  // finishes
  c.place(c.call.recv, at(vector.memory(), own.begin), own.bytes);
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

const Algorithm reduce_scatter_direct = {
    .coll = Coll::reduce_scatter,
    .name = "direct",
    .run = with_parameters<tutti::reduce_scatter_block_direct>,
    .restriction_of = with_parameters<divides_between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

const Algorithm reduce_scatter_recursive_doubling = {
    .coll = Coll::reduce_scatter,
    .name = "recursive_doubling",
    .run = with_parameters<tutti::reduce_scatter_block_recursive_doubling>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "recursive doubling",
};

const Algorithm reduce_scatter_ordered = {
    .coll = Coll::reduce_scatter,
    .name = "ordered",
    .run = with_parameters<tutti::reduce_scatter_block_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

}  // namespace algorithm
}  // namespace tutti
