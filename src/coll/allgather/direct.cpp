// Allgather and allgatherv between nodes, in log2 N rounds: small ones through inbox blocks, others
// straight into the receivers' memory.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/dissemination.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {
namespace {

using Collect = Task (*)(Team&, const Ticket&, void*, std::size_t, const PlacementOf&);

Task allgather(Team& t, const Call& call, const Ticket& k, Collect collect) noexcept {
  const PlacementOf placement = [&call](int member) {
    return Placement{static_cast<std::size_t>(member) * call.bytes, call.bytes};
  };
  place(t, at(call.recv, placement(t.rank()).begin), call.send, call.bytes);
  co_await collect(t, k, call.recv, call.bytes * static_cast<std::size_t>(t.size()), placement);
  t.finish(k);
  co_return Status::success();
}

/// Members may place the blocks differently in their receive buffers, so they are collected without
/// gaps.
Task allgatherv(Team& t, const Call& call, const Ticket& k, Collect collect) noexcept {
  std::vector<std::size_t> begins;
  std::size_t total = 0;
  for (int member = 0; member < t.size(); ++member) {
    begins.push_back(total);
    total += call.counts[member];
  }
  const PlacementOf placement = [&](int member) {
    return Placement{begins[static_cast<std::size_t>(member)], call.counts[member]};
  };
  Temporary packed;
  co_await packed.allocate(t, total);
  place(t, at(packed.memory(), placement(t.rank()).begin), call.send, call.counts[t.rank()]);
  co_await collect(t, k, packed.memory(), total, placement);
  for (int member = 0; member < t.size(); ++member) {
    place(t, at(call.recv, call.displs[member]), at(packed.memory(), placement(member).begin),
          call.counts[member]);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace

Task allgather_bruck(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return allgather(t, call, k, collect_eager);
}
Task allgather_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return allgather(t, call, k, collect_direct);
}
Task allgatherv_bruck(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return allgatherv(t, call, k, collect_eager);
}
Task allgatherv_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return allgatherv(t, call, k, collect_direct);
}

}  // namespace tutti
