// Broadcast by multicast with negative acknowledgements, which MCAST-2007 compares its ring with.
//
// The root saves the message, casts it and leaves. A member that lacks something when its time is
// up asks the root for it: one-sided, by reading what the root has saved, so that the root need not
// wait for questions. Whatever the timeout, it is too long for those that lost a fragment, or too
// short for a root that comes late.
#include "coll/algorithms.hpp"
#include "coll/pattern/casts.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_multicast_nack(Collective& c, Casts::Timeout p) {
  co_await c.team.open_multicast();
  co_await c.enter(false);
  Casts casts(c);
  if (casts.place() == 0) {
    co_await casts.save();
    co_await casts.cast();
    c.finish();
    co_return Status::success();
  }
  const std::uint64_t timeout_ns = static_cast<std::uint64_t>(p.timeout) * 1000;
  co_await casts.take_until(c.team.fabric().now_ns() + timeout_ns);
  while (!casts.complete()) {
    bool saved = false;
    co_await casts.fetch(&saved);
    // The root has not come yet: its multicast may still.
    if (!saved) co_await casts.take_until(c.team.fabric().now_ns() + timeout_ns);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_multicast_nack = {
    .coll = Coll::bcast,
    .name = "multicast_nack",
    .run = with_parameters<tutti::bcast_multicast_nack>,
    .restriction_of = with_parameters<acknowledges_casts>,
    .parameters = Casts::kTimeout,
    .source = "a rival of MCAST-2007",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
