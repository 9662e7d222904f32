// Broadcast by unreliable multicast and a reliable ring, in about two send times however many ranks
// there are (MCAST-2007; coll/pattern/cast_ring.hpp).
//
// Where the repairs cost more than the multicast saves, all members leave it, and the message goes
// by the binomial tree (team/cast_watch.hpp).
#include "team/multicast.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_ring.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct RepairRing {
  std::int64_t chords = 1;
};

}  // namespace

/// Instead, while multicast is left.
static Task by_tree(Collective& c) {
  const Algorithm& tree = algorithm::bcast_binomial;
  CastWatch& watch = c.team.multicast().watch();
  watch.went_by_tree();
  co_await tree.run(c, tree.defaults());
  if (CastWatch::is_surveyed(c.ticket().cast)) watch.conclude(c.ticket().cast, nullptr);
  co_return Status::success();
}

Task bcast_multicast(Collective& c, RepairRing p) {
  bool casts = false;
  co_await c.team.open_multicast();
  co_await await_surveys(c, &casts);
  if (!casts) {
    co_await by_tree(c);
    co_return Status::success();
  }
  co_await c.enter(false);
  co_await cast_and_repair(c, p.chords);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_multicast = {
    .coll = Coll::bcast,
    .name = "multicast",
    .run = with_parameters<tutti::bcast_multicast>,
    .restriction_of = with_parameters<casts_fragments>,
    .parameters = parameters_of<RepairRing>({{&RepairRing::chords, "chords", "distances", 1, 32,
                                              "chords: 1 (the paper's ring) to 32"}}),
    .source = "MCAST-2007",
    .casts = true,
    .watched = true,
};

}  // namespace algorithm
}  // namespace tutti
