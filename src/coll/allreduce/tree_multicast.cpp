// Degree-k reduce to rank 0, whose result reaches all members by multicast (CDCP-2008 distributes
// by the network's hardware broadcast): one step down however many members there are, where a tree
// has log2 N of them. What the multicast loses the ring of MCAST-2007 repairs
// (coll/pattern/cast_ring.hpp).
//
// While multicast is left (team/cast_watch.hpp) the result goes down a tree, as in degree_k.
#include "coll/algorithms.hpp"
#include "coll/allreduce/degree_k.hpp"
#include "coll/pattern/cast_ring.hpp"
#include "coll/pattern/reduce_tree.hpp"
#include "coll/restrictions.hpp"
#include "team/multicast.hpp"

namespace tutti {
namespace {

struct UpAndCast {
  std::int64_t degree = 7;
};

const char* reduces_and_casts(const Shape& s, UpAndCast p) {
  const char* const why = casts_fragments(s);
  return why != nullptr ? why : fits_inbox_block(s, p.degree);
}

/// Instead, while multicast is left.
Task by_trees(Collective& c, std::int64_t degree) {
  CastWatch& watch = c.team.multicast().watch();
  watch.went_by_tree();
  co_await allreduce_degree_k(c, {degree, 1});
  if (CastWatch::is_surveyed(c.ticket().cast)) watch.conclude(c.ticket().cast, nullptr);
  co_return Status::success();
}

}  // namespace

Task allreduce_tree_multicast(Collective& c, UpAndCast p) {
  bool casts = false;
  co_await c.team.open_multicast();
  co_await await_surveys(c, &casts);
  if (!casts) {
    co_await by_trees(c, p.degree);
    co_return Status::success();
  }
  Completion sent;
  co_await c.enter(true);
  co_await reduce_up_tree(c, static_cast<int>(p.degree), c.call.recv, &sent);
  // The result will be written where the own contribution may still be on its way from.
  co_await c.completed(sent);
  co_await cast_and_repair(c, 1);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_tree_multicast = {
    .coll = Coll::allreduce,
    .name = "tree_multicast",
    .run = with_parameters<tutti::allreduce_tree_multicast>,
    .restriction_of = with_parameters<reduces_and_casts>,
    .parameters = parameters_of<UpAndCast>(
        {{&UpAndCast::degree, "degree", "members", 1, 15, "degree: 1, 3, 7 or 15"}}),
    .source = "VIA-2003, section 4.2, and MCAST-2007; CDCP-2008, section III",
    .casts = true,
    .watched = true,
};

}  // namespace algorithm
}  // namespace tutti
