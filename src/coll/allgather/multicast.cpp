// Allgather by multicast: every member in turn casts its block to all others, in windows that are
// repaired one-sided (coll/pattern/cast_windows.hpp). A block leaves its member once, where it
// leaves N - 1 nodes once each around a ring.
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/move.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allgather_multicast(Collective& c, CastWindows::Pacing p) {
  co_await c.team.open_multicast();
  co_await c.stream().turn();
  co_await c.enter(true);
  const auto size = static_cast<std::size_t>(c.size());
  c.place(at(c.call.recv, static_cast<std::size_t>(c.rank()) * c.call.bytes), c.call.send,
          c.call.bytes);
  const CastBlocks blocks{static_cast<std::byte*>(c.call.recv), c.call.bytes, size * c.call.bytes,
                          0};
  CastWindows windows(c, blocks, p);
  co_await windows.run();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allgather_multicast = {
    .coll = Coll::allgather,
    .name = "multicast",
    .run = with_parameters<tutti::allgather_multicast>,
    .restriction_of = with_parameters<casts_windows>,
    .items = with_parameters<cast_items>,
    .parameters = CastWindows::kPacing,
    .source = "MCAST-2007, its open question of large messages",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
