// Broadcast of large messages by multicast: windows of datagrams, paced by what the receivers
// report, and repaired one-sided around the ring of MCAST-2007 (coll/pattern/cast_windows.hpp).
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_multicast_window(Collective& c, CastWindows::Pacing p) {
  co_await c.team.open_multicast();
  co_await c.stream().turn();
  co_await c.enter(false);
  const CastBlocks message{static_cast<std::byte*>(c.call.recv), c.call.bytes, c.call.bytes,
                           c.call.root};
  CastWindows windows(c, message, p);
  co_await windows.run();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_multicast_window = {
    .coll = Coll::bcast,
    .name = "multicast_window",
    .run = with_parameters<tutti::bcast_multicast_window>,
    .restriction_of = with_parameters<casts_windows>,
    .items = with_parameters<cast_items>,
    .parameters = CastWindows::kPacing,
    .source = "MCAST-2007, its open question of large messages",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
