// Degree-k tree-based reduce by RDMA write (VIA-2003, section 4.2). The tree keeps rank order, so
// it ends at rank 0; another root gets the result by one more put.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/reduce_tree.hpp"

namespace tutti {

Task reduce_degree_k(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  Inbox& inbox = t.inbox();
  Completion sent;
  co_await inbox.enter(k, false);
  // Only the root has a receive buffer; the others fold in scratch memory of their own.
  Scratch scratch(t);
  co_await scratch.take();
  void* const accumulator = t.rank() == call.root ? call.recv : scratch.memory();
  co_await reduce_up_tree(t, call, k, static_cast<int>(p.value[0]), accumulator, &sent);
  if (call.root != 0) {
    const int block = Inbox::bcast_block(t.size(), 0);
    if (t.rank() == 0) co_await inbox.put(k, call.root, block, accumulator, call.bytes, &sent);
    if (t.rank() == call.root) {
      co_await inbox.arrival(k, block, 0);
      co_await t.engine().completed(sent, t.membership());
      place(t, call.recv, inbox.data(k, block, call.bytes), call.bytes);
    }
  }
  co_await t.engine().completed(sent, t.membership());
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
