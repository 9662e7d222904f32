// Allreduce, reduce and scans in the strict order of the ranks, whatever their layout: everybody
// collects all vectors and folds them from left to right, or at once. For operators that do not
// commute and results that must have the same bits.
#include "coll/allreduce/ordered.hpp"

#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/dissemination.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// Of the first `count` members; with 0 nothing is folded.
Task fold_all(Collective& c, int count, void* out) noexcept {
  const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
  const PlacementOf placement = [&c](int member) {
    return Placement{static_cast<std::size_t>(member) * c.call.bytes, c.call.bytes};
  };
  Temporary vectors;
  co_await vectors.allocate(c, total);
  c.place(at(vectors.memory(), placement(c.rank()).begin), c.call.send, c.call.bytes);
  co_await collect_direct(c, vectors.memory(), total, placement);
  if (count != 0) {
    fold_vectors(
        c, count, [&](int member) { return at(vectors.memory(), placement(member).begin); }, out,
        c.call.bytes);
  }
  c.finish();
  co_return Status::success();
}

}  // namespace

Task allreduce_ordered(Collective& c) { return fold_all(c, c.size(), c.call.recv); }

Task reduce_ordered(Collective& c) {
  return fold_all(c, c.rank() == c.call.root ? c.size() : 0, c.call.recv);
}

Task scan_ordered(Collective& c) {
  return fold_all(c, c.rank() + (c.call.coll == Coll::scan ? 1 : 0), c.call.recv);
}

namespace algorithm {

const Algorithm reduce_ordered = {
    .coll = Coll::reduce,
    .name = "ordered",
    .run = with_parameters<tutti::reduce_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

const Algorithm allreduce_ordered = {
    .coll = Coll::allreduce,
    .name = "ordered",
    .run = with_parameters<tutti::allreduce_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

const Algorithm scan_ordered = {
    .coll = Coll::scan,
    .name = "ordered",
    .run = with_parameters<tutti::scan_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

const Algorithm exscan_ordered = {
    .coll = Coll::exscan,
    .name = "ordered",
    .run = with_parameters<tutti::scan_ordered>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "fold in rank order",
};

}  // namespace algorithm
}  // namespace tutti
