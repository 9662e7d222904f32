// Allgather and allgatherv between nodes in one round: every member puts its block into the
// segments of all others.
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/everyone.hpp"

namespace tutti {
namespace {

Task exchange(Team& t, const Call& call, const Ticket& k) noexcept {
  const SegmentBlocks blocks(t.node_map(), call.bytes, call.counts);
  const auto destination = [&call](int member) {
    return at(call.recv, call.displs != nullptr ? call.displs[member]
                                                : static_cast<std::size_t>(member) * call.bytes);
  };
  const int me = t.rank();
  Completion sent;
  bool made = false;
  co_await enter_segment(t, k, blocks.begin(t.size()), &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  if (puts_take_long(t, blocks.bytes(me) * static_cast<std::size_t>(t.size() - 1)))
    co_await t.engine().later();
  co_await put_to_everyone(t, 1, blocks.begin(me), call.send, blocks.bytes(me), &sent);
  place(t, destination(me), call.send, blocks.bytes(me));
  for (int i = t.size() - 1; i > 0; --i) {  // who begins with this one first
    const int member = member_after(t, i);
    co_await heard(t, member, 1);
    place(t, destination(member), t.segment().data(blocks.begin(member)), blocks.bytes(member));
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace

Task allgather_exchange(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return exchange(t, call, k);
}

Task allgatherv_exchange(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return exchange(t, call, k);
}

}  // namespace tutti
