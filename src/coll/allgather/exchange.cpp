// Allgather and allgatherv between nodes in one round: every member puts its block into the
// segments of all others.
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/everyone.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

Task exchange(Collective& c) noexcept {
  const SegmentBlocks blocks(c.team.node_map(), c.call.bytes, c.call.counts);
  const auto destination = [&c](int member) {
    return at(c.call.recv, c.call.displs != nullptr
                               ? c.call.displs[member]
                               : static_cast<std::size_t>(member) * c.call.bytes);
  };
  const int me = c.rank();
  Completion sent;
  bool made = false;
  co_await enter_segment(c, blocks.begin(c.size()), &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  if (puts_take_long(c, blocks.bytes(me) * static_cast<std::size_t>(c.size() - 1)))
    co_await c.team.engine().later();
  co_await put_to_everyone(c, 1, blocks.begin(me), c.call.send, blocks.bytes(me), &sent);
  c.place(destination(me), c.call.send, blocks.bytes(me));
  for (int i = c.size() - 1; i > 0; --i) {  // who begins with this one first
    const int member = member_after(c, i);
    co_await signalled(c, member, 1);
    c.place(destination(member), c.team.segment().data(blocks.begin(member)), blocks.bytes(member));
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

}  // namespace

Task allgather_exchange(Collective& c) { return exchange(c); }

Task allgatherv_exchange(Collective& c) { return exchange(c); }

namespace algorithm {

const Algorithm allgather_exchange = {
    .coll = Coll::allgather,
    .name = "exchange",
    .run = with_parameters<tutti::allgather_exchange>,
    .restriction_of = with_parameters<blocks_of_everyone>,
    .source = "every member to every other one",
};

const Algorithm allgatherv_exchange = {
    .coll = Coll::allgatherv,
    .name = "exchange",
    .run = with_parameters<tutti::allgatherv_exchange>,
    .restriction_of = with_parameters<one_message_to_everyone>,
    .source = "every member to every other one",
};

}  // namespace algorithm
}  // namespace tutti
