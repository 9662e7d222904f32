#include "coll/pattern/reduce_tree.hpp"

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task reduce_up_tree(Collective& c, int degree, void* accumulator, Completion* sent) {
  const DegreeTree tree(c.rank(), c.size(), degree);
  const void* folded = c.call.send;  // the first fold takes the own vector from where it is
  for (int step = 0; step < tree.steps(); ++step) {
    for (int j = 1; j <= degree; ++j) {
      const int child = tree.child(step, j);
      if (child < 0) continue;
      const int block = tree.block_of(step, j);
      co_await c.arrival(block, child);
      if (c.call.bytes == 0) continue;
      c.fold(folded, c.data(block, c.call.bytes), accumulator, c.call.bytes);
      folded = accumulator;
    }
  }
  if (tree.parent() >= 0) {
    co_await c.put(tree.parent(), tree.block(), folded, c.call.bytes, sent);
  } else if (folded == c.call.send) {
    c.place(accumulator, c.call.send, c.call.bytes);  // the only member
  }
  co_return Status::success();
}

}  // namespace tutti
