// Reduce along a binomial tree straight into temporary memory of the parent, in rank order, for
// vectors of any size.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task reduce_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  // Ranks of the tree are the team's, so that the order is kept; rank 0 hands on to another root.
  const DegreeTree tree(t.rank(), t.size(), 1);
  Inbox& inbox = t.inbox();
  Temporary memory;
  Window window(t);
  Completion sent;
  const bool root = t.rank() == call.root;
  const bool handed_on = call.root != 0;
  int children = 0;
  for (int step = 0; step < tree.steps(); ++step) children += tree.child(step, 1) >= 0;
  co_await inbox.enter(k, false);
  // One slot for each child, and one for the partial result.
  const auto slots = static_cast<std::size_t>(children);
  co_await memory.allocate(t, call.bytes * (slots + 1));
  if (children != 0) co_await window.open(memory.memory(), call.bytes * slots);
  for (int step = 0; step < tree.steps(); ++step) {
    if (tree.child(step, 1) >= 0) co_await window.invite(k, tree.child(step, 1));
  }
  const void* folded = call.send;
  void* const partial = at(memory.memory(), call.bytes * slots);
  for (int step = 0, slot = 0; step < tree.steps(); ++step) {
    const int child = tree.child(step, 1);
    if (child < 0) continue;
    co_await inbox.mailed(k, child, kArrived);
    fold_bytes(t, *call.reduction, folded,
               at(memory.memory(), call.bytes * static_cast<std::size_t>(slot++)), partial,
               call.bytes);
    folded = partial;
  }
  if (tree.parent() >= 0) {
    co_await inbox.mailed(k, tree.parent(), kInvited);
    const auto slot = static_cast<std::size_t>(tree.block());
    co_await put_direct(t, k, tree.parent(), call.bytes * slot, folded, call.bytes, &sent);
    co_await inbox.mail(k, tree.parent(), kArrived, nullptr);
  } else if (root) {
    place(t, call.recv, folded, call.bytes);
  }
  Window result(t);
  if (handed_on && root) {
    co_await result.open(call.recv, call.bytes);
    // The own operand may lie there, and be on its way to the parent.
    co_await all_sent(t, sent);
    co_await inbox.put(k, 0, Inbox::bcast_block(t.size(), 0), &result.key(), sizeof(Key), &sent);
    co_await inbox.arrival(k, Inbox::bcast_block(t.size(), 0), 0);
  }
  if (handed_on && t.rank() == 0) {
    const int block = Inbox::bcast_block(t.size(), 0);
    co_await inbox.arrival(k, block, call.root);
    Key key;
    Remote there;
    std::memcpy(&key, inbox.data(k, block, sizeof key), sizeof key);
    co_await t.fabric().attach(t.job_rank(call.root), key, &there);
    co_await t.fabric().put(there, 0, folded, call.bytes, nullptr, &sent);
    co_await inbox.put(k, call.root, block, nullptr, 0, nullptr);
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
