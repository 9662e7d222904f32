// Allgather and allgatherv between nodes, in log2 N rounds: small ones through inbox blocks, others
// straight into the receivers' memory.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/dissemination.hpp"
#include "coll/pattern/move.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

using Collect = Task (*)(Collective&, void*, std::size_t, const PlacementOf&);

Task allgather(Collective& c, Collect collect) noexcept {
  const PlacementOf placement = [&c](int member) {
    return Placement{static_cast<std::size_t>(member) * c.call.bytes, c.call.bytes};
  };
  c.place(at(c.call.recv, placement(c.rank()).begin), c.call.send, c.call.bytes);
  co_await collect(c, c.call.recv, c.call.bytes * static_cast<std::size_t>(c.size()), placement);
  c.finish();
  co_return Status::success();
}

/// Members may place the blocks differently in their receive buffers, so they are collected without
/// gaps.
Task allgatherv(Collective& c, Collect collect) noexcept {
  std::vector<std::size_t> begins;
  std::size_t total = 0;
  for (int member = 0; member < c.size(); ++member) {
    begins.push_back(total);
    total += c.call.counts[member];
  }
  const PlacementOf placement = [&](int member) {
    return Placement{begins[static_cast<std::size_t>(member)], c.call.counts[member]};
  };
  Temporary packed;
  co_await packed.allocate(c, total);
  c.place(at(packed.memory(), placement(c.rank()).begin), c.call.send, c.call.counts[c.rank()]);
  co_await collect(c, packed.memory(), total, placement);
  for (int member = 0; member < c.size(); ++member) {
    c.place(at(c.call.recv, c.call.displs[member]), at(packed.memory(), placement(member).begin),
            c.call.counts[member]);
  }
  c.finish();
  co_return Status::success();
}

}  // namespace

Task allgather_bruck(Collective& c) { return allgather(c, collect_eager); }
Task allgather_direct(Collective& c) { return allgather(c, collect_direct); }
Task allgatherv_bruck(Collective& c) { return allgatherv(c, collect_eager); }
Task allgatherv_direct(Collective& c) { return allgatherv(c, collect_direct); }

namespace algorithm {

const Algorithm allgather_bruck = {
    .coll = Coll::allgather,
    .name = "bruck",
    .run = with_parameters<tutti::allgather_bruck>,
    .restriction_of = with_parameters<collects_in_block>,
    .source = "Bruck et al. 1997",
};

const Algorithm allgather_direct = {
    .coll = Coll::allgather,
    .name = "direct",
    .run = with_parameters<tutti::allgather_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "Bruck et al. 1997",
};

const Algorithm allgatherv_bruck = {
    .coll = Coll::allgatherv,
    .name = "bruck",
    .run = with_parameters<tutti::allgatherv_bruck>,
    .restriction_of = with_parameters<collects_in_block>,
    .source = "Bruck et al. 1997",
};

const Algorithm allgatherv_direct = {
    .coll = Coll::allgatherv,
    .name = "direct",
    .run = with_parameters<tutti::allgatherv_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "Bruck et al. 1997",
};

}  // namespace algorithm
}  // namespace tutti
