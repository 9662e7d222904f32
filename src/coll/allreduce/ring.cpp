// Allreduce around a ring: every member sends 2 (N - 1) / N of its vector, in parts to its right
// neighbour only. In the first half a part collects the operands of all on its way round, in the
// second it is handed on.
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_ring.hpp"

namespace tutti {

Task allreduce_ring(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const int size = t.size();
  const int right = right_of(t), left = left_of(t);
  const Partition parts(call.bytes, call.reduction->element_bytes, size);
  const auto part = [&](int steps_back) { return (t.rank() + 2 * size - steps_back) % size; };
  Inbox& inbox = t.inbox();
  Temporary incoming;
  Window collecting(t), result(t);
  Completion sent;
  Remote there;
  place(t, call.recv, call.send, call.bytes);
  co_await incoming.allocate(t, call.bytes);
  co_await collecting.open(incoming.memory(), call.bytes);
  co_await result.open(call.recv, call.bytes);
  co_await inbox.enter(k, true);
  co_await collecting.invite(k, left);
  co_await inbox.put(k, left, 0, &result.key(), sizeof(Key), &sent);
  co_await inbox.mailed(k, right, kInvited);
  std::uint64_t step = kArrived;
  co_await fold_around_ring(t, call, k, parts, incoming.memory(), &step, &sent);
  co_await inbox.arrival(k, 0, right);
  Key key;
  std::memcpy(&key, inbox.data(k, 0, sizeof key), sizeof key);
  co_await t.fabric().attach(t.job_rank(right), key, &there);
  for (int i = 0; i < size - 1; ++i, ++step) {
    const int mine = part(i - 1);
    if (parts.bytes(mine) != 0) {
      co_await t.fabric().put(there, parts.begin(mine), at(call.recv, parts.begin(mine)),
                              parts.bytes(mine), nullptr, &sent);
    }
    co_await inbox.mail(k, right, step, nullptr);
    co_await inbox.mailed(k, left, step);
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
