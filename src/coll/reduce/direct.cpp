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
  TUTTI_CO_TRY(co_await inbox.enter(k, false));
  // One slot for each child, and one for the partial result.
  const auto slots = static_cast<std::size_t>(children);
  TUTTI_CO_TRY(memory.allocate(t, call.bytes * (slots + 1)));
  if (children != 0) TUTTI_CO_TRY(window.open(memory.memory(), call.bytes * slots));
  for (int step = 0; step < tree.steps(); ++step) {
    if (tree.child(step, 1) >= 0) TUTTI_CO_TRY(window.invite(k, tree.child(step, 1)));
  }
  const void* folded = call.send;
  void* const partial = at(memory.memory(), call.bytes * slots);
  for (int step = 0, slot = 0; step < tree.steps(); ++step) {
    const int child = tree.child(step, 1);
    if (child < 0) continue;
    TUTTI_CO_TRY(co_await inbox.mailed(k, child, kArrived));
    fold_bytes(t, *call.reduction, folded,
               at(memory.memory(), call.bytes * static_cast<std::size_t>(slot++)), partial,
               call.bytes);
    folded = partial;
  }
  if (tree.parent() >= 0) {
    TUTTI_CO_TRY(co_await inbox.mailed(k, tree.parent(), kInvited));
    const auto slot = static_cast<std::size_t>(tree.block());
    TUTTI_CO_TRY(put_direct(t, k, tree.parent(), call.bytes * slot, folded, call.bytes, &sent));
    TUTTI_CO_TRY(inbox.mail(k, tree.parent(), kArrived, nullptr));
  } else if (root) {
    place(t, call.recv, folded, call.bytes);
  }
  Window result(t);
  if (handed_on && root) {
    TUTTI_CO_TRY(result.open(call.recv, call.bytes));
    // The own operand may lie there, and be on its way to the parent.
    TUTTI_CO_TRY(co_await all_sent(t, sent));
    TUTTI_CO_TRY(
        inbox.put(k, 0, Inbox::bcast_block(t.size(), 0), &result.key(), sizeof(Key), &sent));
    TUTTI_CO_TRY(co_await inbox.arrival(k, Inbox::bcast_block(t.size(), 0), 0));
  }
  if (handed_on && t.rank() == 0) {
    const int block = Inbox::bcast_block(t.size(), 0);
    TUTTI_CO_TRY(co_await inbox.arrival(k, block, call.root));
    Key key;
    Remote there;
    std::memcpy(&key, inbox.data(k, block, sizeof key), sizeof key);
    TUTTI_CO_TRY(t.fabric().attach(t.job_rank(call.root), key, &there));
    TUTTI_CO_TRY(t.fabric().put(there, 0, folded, call.bytes, nullptr, &sent));
    TUTTI_CO_TRY(inbox.put(k, call.root, block, nullptr, 0, nullptr));
  }
  TUTTI_CO_TRY(co_await all_sent(t, sent));
  TUTTI_CO_TRY(sent.status);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
