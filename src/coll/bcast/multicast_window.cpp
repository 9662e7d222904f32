// Broadcast of large messages by multicast: windows of datagrams, paced by what the receivers
// report, and repaired one-sided around the ring of MCAST-2007 (coll/pattern/cast_windows.hpp).
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_multicast_window(Collective& c, const Parameters& p) {
  co_await c.team.open_multicast();
  co_await c.turn();
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
    .run = tutti::bcast_multicast_window,
    .restriction_of = casts_windows,
    .items = cast_items,
    .parameters = {{"window", 192, "datagrams", Ring::kGroup, CastWindows::kMostWindow,
                    "window: 24 to 288 datagrams"},
                   {"pace", 0, "MB/s", 0, 1'000'000, "pace: 1 to 1000000 MB/s"},
                   {"patience", 100000, "us", 0, 60'000'000, "patience: 1 to 60000000 us"}},
    .source = "MCAST-2007, its open question of large messages",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
