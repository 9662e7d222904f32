// Allreduce and reduce in the strict order of the ranks, whatever their layout: everybody collects
// all vectors and folds them from left to right. For operators that do not commute and results that
// must have the same bits.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/dissemination.hpp"
#include "coll/pattern/fold.hpp"

namespace tutti {
namespace {

Task fold_all(Team& t, const Call& call, const Ticket& k, void* out) noexcept {
  const std::size_t total = call.bytes * static_cast<std::size_t>(t.size());
  const PlacementOf placement = [&call](int member) {
    return Placement{static_cast<std::size_t>(member) * call.bytes, call.bytes};
  };
  Temporary vectors;
  co_await vectors.allocate(t, total);
  place(t, at(vectors.memory(), placement(t.rank()).begin), call.send, call.bytes);
  co_await collect_direct(t, k, vectors.memory(), total, placement);
  if (out != nullptr) {
    Folder fold(t, *call.reduction, out, call.bytes);
    for (int member = 0; member < t.size(); ++member)
      fold(at(vectors.memory(), placement(member).begin));
    fold.finish();
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace

Task allreduce_ordered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_all(t, call, k, call.recv);
}

Task reduce_ordered(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return fold_all(t, call, k, t.rank() == call.root ? call.recv : nullptr);
}

}  // namespace tutti
