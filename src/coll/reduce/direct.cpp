// Reduce along a binomial tree straight into temporary memory of the parent, in rank order, for
// vectors of any size.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_direct(Collective& c) {
  // Ranks of the tree are the team's, so that the order is kept; rank 0 hands on to another root.
  const DegreeTree tree(c.rank(), c.size(), 1);
  Temporary memory;
  Window window(c);
  Completion sent;
  const bool root = c.rank() == c.call.root;
  const bool handed_on = c.call.root != 0;
  int children = 0;
  for (int step = 0; step < tree.steps(); ++step) children += tree.child(step, 1) >= 0;
  co_await c.enter(false);
  // One slot for each child, and one for the partial result.
  const auto slots = static_cast<std::size_t>(children);
  co_await memory.allocate(c, c.call.bytes * (slots + 1));
  if (children != 0) co_await window.open(memory.memory(), c.call.bytes * slots);
  for (int step = 0; step < tree.steps(); ++step) {
    if (tree.child(step, 1) >= 0) co_await window.invite(c, tree.child(step, 1));
  }
  const void* folded = c.call.send;
  void* const partial = at(memory.memory(), c.call.bytes * slots);
  for (int step = 0, slot = 0; step < tree.steps(); ++step) {
    const int child = tree.child(step, 1);
    if (child < 0) continue;
    co_await c.mailed(child, kArrived);
    c.fold(folded, at(memory.memory(), c.call.bytes * static_cast<std::size_t>(slot++)), partial,
           c.call.bytes);
    folded = partial;
  }
  if (tree.parent() >= 0) {
    co_await c.mailed(tree.parent(), kInvited);
    const auto slot = static_cast<std::size_t>(tree.block());
    co_await put_direct(c, tree.parent(), c.call.bytes * slot, folded, c.call.bytes, &sent);
    co_await c.mail(tree.parent(), kArrived);
  } else if (root) {
    c.place(c.call.recv, folded, c.call.bytes);
  }
  Window result(c);
  if (handed_on && root) {
    co_await result.open(c.call.recv, c.call.bytes);
    // The own operand may lie there, and be on its way to the parent.
    co_await c.completed(sent);
    co_await c.put(0, c.bcast_block(0), &result.key(), sizeof(Key), &sent);
    co_await c.arrival(c.bcast_block(0), 0);
  }
  if (handed_on && c.rank() == 0) {
    const int block = c.bcast_block(0);
    co_await c.arrival(block, c.call.root);
    Key key;
    Remote there;
    std::memcpy(&key, c.data(block, sizeof key), sizeof key);
    co_await c.team.fabric().attach(c.team.job_rank(c.call.root), key, &there);
    co_await c.team.fabric().put(there, 0, folded, c.call.bytes, nullptr, &sent);
    co_await c.put(c.call.root, block, nullptr, 0, nullptr);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_direct = {
    .coll = Coll::reduce,
    .name = "direct",
    .run = with_parameters<tutti::reduce_direct>,
    .restriction_of = with_parameters<folds_between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
