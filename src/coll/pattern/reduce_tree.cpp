#include "coll/pattern/reduce_tree.hpp"

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task reduce_up_tree(Team& t, const Call& call, const Ticket& k, int degree, void* accumulator,
                    Completion* sent) {
  const DegreeTree tree(t.rank(), t.size(), degree);
  Inbox& inbox = t.inbox();
  const void* folded = call.send;  // the first fold takes the own vector from where it is
  for (int step = 0; step < tree.steps(); ++step) {
    for (int j = 1; j <= degree; ++j) {
      const int child = tree.child(step, j);
      if (child < 0) continue;
      const int block = tree.block_of(step, j);
      co_await inbox.arrival(k, block, child);
      if (call.bytes == 0) continue;
      fold_bytes(t, *call.reduction, folded, inbox.data(k, block, call.bytes), accumulator,
                 call.bytes);
      folded = accumulator;
    }
  }
  if (tree.parent() >= 0) {
    co_await inbox.put(k, tree.parent(), tree.block(), folded, call.bytes, sent);
  } else if (folded == call.send) {
    place(t, accumulator, call.send, call.bytes);  // the only member
  }
  co_return Status::success();
}

}  // namespace tutti
