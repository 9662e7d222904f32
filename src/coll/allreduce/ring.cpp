// Allreduce around a ring: every member sends 2 (N - 1) / N of its vector, in parts to its right
// neighbour only. In the first half a part collects the operands of all on its way round, in the
// second it is handed on.
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_ring.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_ring(Collective& c) {
  const int size = c.size();
  const int right = right_of(c), left = left_of(c);
  const Partition parts(c.call.bytes, c.call.reduction->element_bytes, size);
  const auto part = [&](int steps_back) { return (c.rank() + 2 * size - steps_back) % size; };
  Temporary incoming;
  Window collecting(c), result(c);
  Completion sent;
  Remote there;
  c.place(c.call.recv, c.call.send, c.call.bytes);
  co_await incoming.allocate(c, c.call.bytes);
  co_await collecting.open(incoming.memory(), c.call.bytes);
  co_await result.open(c.call.recv, c.call.bytes);
  co_await c.enter(true);
  co_await collecting.invite(c, left);
  co_await c.put(left, 0, &result.key(), sizeof(Key), &sent);
  co_await c.mailed(right, kInvited);
  std::uint64_t step = kArrived;
  co_await fold_around_ring(c, parts, incoming.memory(), &step, &sent);
  co_await c.arrival(0, right);
  Key key;
  std::memcpy(&key, c.data(0, sizeof key), sizeof key);
  co_await c.team.fabric().attach(c.team.job_rank(right), key, &there);
  for (int i = 0; i < size - 1; ++i, ++step) {
    const int mine = part(i - 1);
    if (parts.bytes(mine) != 0) {
      co_await c.team.fabric().put(there, parts.begin(mine), at(c.call.recv, parts.begin(mine)),
                                   parts.bytes(mine), nullptr, &sent);
    }
    co_await c.mail(right, step);
    co_await c.mailed(left, step);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_ring = {
    .coll = Coll::allreduce,
    .name = "ring",
    .run = with_parameters<tutti::allreduce_ring>,
    .restriction_of = with_parameters<rings_between_nodes>,
    .source = "ring",
};

}  // namespace algorithm
}  // namespace tutti
