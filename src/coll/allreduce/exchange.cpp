// Allreduce between nodes in one round or in two, whatever the number of members; operands are
// folded in rank order.
//
// exchange: every member puts its vector into the segments of all others, and everybody folds
// all of them. two_shot: every member puts part i of its vector to member i, which folds the
// parts that it gets and puts the result to all others: no more bytes than a ring sends, in 2
// rounds instead of 2 (N - 1).
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/everyone.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kOperands = 1, kResult = 2;  // phases

/// Space for one member's operand in the segment.
std::size_t slot_bytes(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Folds what all members have put here, with the own operand in its place.
Task fold_slots(Collective& c, std::size_t slot, const void* own, void* out,
                std::size_t bytes) noexcept {
  const auto vector_of = [&](int member) -> const void* {
    return member == c.rank() ? own
                              : c.team.segment().data(static_cast<std::size_t>(member) * slot);
  };
  Folder fold(c, out, bytes);
  for (int member = 0; member < c.size(); ++member) {
    if (member != c.rank()) co_await signalled(c, member, kOperands);
    if (!c.at_once()) fold(vector_of(member));
  }
  if (c.at_once()) {
    c.fold_at_once(c.size(), vector_of, out, bytes);
  } else {
    fold.finish();
  }
  co_return Status::success();
}

}  // namespace

Task allreduce_exchange(Collective& c) {
  const std::size_t slot = slot_bytes(c.call.bytes);
  const std::size_t own = static_cast<std::size_t>(c.rank()) * slot;
  Completion sent;
  bool made = false;
  co_await enter_segment(c, slot * static_cast<std::size_t>(c.size()), &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  // Sent and folded from the segment: the receive buffer may be the operand.
  std::byte* const operand = c.team.segment().data(own);
  c.place_shared(operand, c.call.send, c.call.bytes);
  co_await put_to_everyone(c, kOperands, own, operand, c.call.bytes, &sent);
  co_await fold_slots(c, slot, operand, c.call.recv, c.call.bytes);
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

Task allreduce_two_shot(Collective& c) {
  const int size = c.size(), me = c.rank();
  const Partition parts(c.call.bytes, c.call.reduction->element_bytes, size);
  // The last part is the longest.
  const std::size_t slot = slot_bytes(parts.bytes(size - 1) + c.call.reduction->element_bytes);
  const std::size_t result = slot * static_cast<std::size_t>(size);
  Completion sent;
  bool made = false;
  co_await enter_segment(c, result + c.call.bytes, &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  NodeSegment& segment = c.team.segment();
  for (int i = 1; i < size; ++i) {
    const int to = member_after(c, i);
    co_await segment.put_and_signal(to, NodeSegment::flag_of_node(me), kOperands,
                                    static_cast<std::size_t>(me) * slot,
                                    at(c.call.send, parts.begin(to)), parts.bytes(to), &sent);
  }
  std::byte* const mine = segment.data(result + parts.begin(me));
  co_await fold_slots(c, slot, at(c.call.send, parts.begin(me)), mine, parts.bytes(me));
  co_await put_to_everyone(c, kResult, result + parts.begin(me), mine, parts.bytes(me), &sent);
  // The operands leave from the receive buffer, where it is that of the operands too.
  if (c.call.send == c.call.recv) co_await c.completed(sent);
  c.place(at(c.call.recv, parts.begin(me)), mine, parts.bytes(me));
  for (int i = size - 1; i > 0; --i) {
    const int member = member_after(c, i);
    co_await signalled(c, member, kResult);
    c.place(at(c.call.recv, parts.begin(member)), segment.data(result + parts.begin(member)),
            parts.bytes(member));
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_exchange = {
    .coll = Coll::allreduce,
    .name = "exchange",
    .run = with_parameters<tutti::allreduce_exchange>,
    .restriction_of = with_parameters<blocks_of_everyone>,
    .source = "every member to every other one",
};

const Algorithm allreduce_two_shot = {
    .coll = Coll::allreduce,
    .name = "two_shot",
    .run = with_parameters<tutti::allreduce_two_shot>,
    .restriction_of = with_parameters<parts_to_everyone>,
    .source = "every member to every other one",
    .former_name = "split_exchange",
};

}  // namespace algorithm
}  // namespace tutti
