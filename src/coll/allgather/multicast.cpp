// Allgather by multicast: every member in turn casts its block to all others, in windows that are
// repaired one-sided (coll/pattern/cast_windows.hpp). A block leaves its member once, where it
// leaves N - 1 nodes once each around a ring.
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

Task allgather_multicast(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  co_await t.open_multicast();
  co_await t.turn(k);
  co_await t.inbox().enter(k, true);
  const auto size = static_cast<std::size_t>(t.size());
  place(t, at(call.recv, static_cast<std::size_t>(t.rank()) * call.bytes), call.send, call.bytes);
  const CastBlocks blocks{static_cast<std::byte*>(call.recv), call.bytes, size * call.bytes, 0};
  CastWindows windows(t, k, blocks, p);
  co_await windows.run();
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
