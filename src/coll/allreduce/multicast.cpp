// Allreduce whose second half is by multicast: parts are reduced around a ring, and each member
// then casts the part that is complete with it to all others, in windows that are repaired
// one-sided (coll/pattern/cast_windows.hpp). Of the second half a member sends 1 / N of the vector,
// where it sends (N - 1) / N around a ring.
#include "coll/algorithms.hpp"
#include "coll/pattern/cast_windows.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold_ring.hpp"

namespace tutti {

Task allreduce_multicast(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const EqualParts parts(call.bytes, call.reduction->element_bytes, t.size());
  Temporary incoming;
  Window collecting(t);
  Completion sent;
  std::uint64_t step = kArrived;
  co_await t.open_multicast();
  co_await t.turn(k);
  place(t, call.recv, call.send, call.bytes);
  co_await incoming.allocate(t, call.bytes);
  co_await collecting.open(incoming.memory(), call.bytes);
  co_await t.inbox().enter(k, true);
  co_await collecting.invite(k, left_of(t));
  co_await t.inbox().mailed(k, right_of(t), kInvited);
  co_await fold_around_ring(t, call, k, parts, incoming.memory(), &step, &sent);
  // What has been put is overwritten now.
  co_await all_sent(t, sent);
  const CastBlocks blocks{static_cast<std::byte*>(call.recv), parts.most(), call.bytes,
                          root_of_first_part(t)};
  CastWindows windows(t, k, blocks, p);
  co_await windows.run();
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
