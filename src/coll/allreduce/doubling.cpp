// Allreduce by recursive doubling between nodes: log2 N exchanges of whole vectors.
#include "coll/pattern/doubling.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

Task allreduce_doubling(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  place(t, call.recv, call.send, call.bytes);
  co_await double_up(t, k, *call.reduction, call.recv, call.bytes);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
