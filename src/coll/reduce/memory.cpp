// Reduce by cross-memory attach: the root reads and folds everybody's vector in place, in rank
// order.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task reduce_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const bool root = t.rank() == call.root;
  std::vector<Remote> remotes(static_cast<std::size_t>(t.size()));
  Scratch scratch(t);
  if (root) co_await scratch.take();
  int known = 0;
  co_await through_memory(
      t, k, Publishers::all(t), call.send, call.bytes, root, [&](int member, const Remote& remote) {
        remotes[static_cast<std::size_t>(member)] = remote;
        if (++known < t.size() - 1) return Status::success();
        return fold_from_memory(t, *call.reduction, call.send, remotes, 0, call.bytes,
                                static_cast<std::byte*>(call.recv), scratch);
      });
  co_return Status::success();
}

}  // namespace tutti
