// Allreduce whose second half is by multicast: parts are reduced around a ring, and each member
// then casts the part that is complete with it to all others, in windows that are repaired
// one-sided (coll/pattern/cast_windows.hpp). Of the second half a member sends 1 / N of the vector,
// where it sends (N - 1) / N around a ring.
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold_ring.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_multicast(Collective& c, CastWindows::Pacing p) {
  const EqualParts parts(c.call.bytes, c.call.reduction->element_bytes, c.size());
  Temporary incoming;
  Window collecting(c);
  Completion sent;
  std::uint64_t step = kArrived;
  co_await c.team.open_multicast();
  co_await c.stream().turn();
  c.place(c.call.recv, c.call.send, c.call.bytes);
  co_await incoming.allocate(c, c.call.bytes);
  co_await collecting.open(incoming.memory(), c.call.bytes);
  co_await c.enter(true);
  co_await collecting.invite(c, left_of(c));
  co_await c.mailed(right_of(c), kInvited);
  co_await fold_around_ring(c, parts, incoming.memory(), &step, &sent);
  // What has been put is overwritten now.
  co_await c.completed(sent);
  const CastBlocks blocks{static_cast<std::byte*>(c.call.recv), parts.most(), c.call.bytes,
                          root_of_first_part(c)};
  CastWindows windows(c, blocks, p);
  co_await windows.run();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_multicast = {
    .coll = Coll::allreduce,
    .name = "multicast",
    .run = with_parameters<tutti::allreduce_multicast>,
    .restriction_of = with_parameters<rings_and_casts>,
    .items = with_parameters<cast_items>,
    .parameters = CastWindows::kPacing,
    .source = "MCAST-2007, its open question of large messages",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
