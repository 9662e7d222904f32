// Broadcast of large messages by multicast: windows of datagrams, paced by what the receivers
// report, and repaired one-sided around the ring of MCAST-2007 (coll/pattern/cast_windows.hpp).
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"

namespace tutti {

Task bcast_multicast_window(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  co_await t.open_multicast();
  co_await t.turn(k);
  co_await t.inbox().enter(k, false);
  const CastBlocks message{static_cast<std::byte*>(call.recv), call.bytes, call.bytes, call.root};
  CastWindows windows(t, k, message, p);
  co_await windows.run();
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
