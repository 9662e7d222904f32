// Allreduce between nodes in one round or in two, whatever the number of members; operands are
// folded in rank order.
//
// exchange: every member puts its vector into the segments of all others, and everybody folds
// all of them. split_exchange: every member puts part i of its vector to member i, which folds the
// parts that it gets and puts the result to all others: no more bytes than a ring sends, in 2
// rounds instead of 2 (N - 1).
#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/everyone.hpp"
#include "coll/pattern/fold.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kOperands = 1, kResult = 2;  // phases

/// Space for one member's operand in the segment.
std::size_t slot_bytes(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Folds what all members have put here, with the own operand in its place.
Task fold_slots(Team& t, const Call& call, std::size_t slot, const void* own, void* out,
                std::size_t bytes) noexcept {
  Folder fold(t, *call.reduction, out, bytes);
  for (int member = 0; member < t.size(); ++member) {
    if (member != t.rank()) co_await heard(t, member, kOperands);
    fold(member == t.rank() ? own : t.segment().data(static_cast<std::size_t>(member) * slot));
  }
  fold.finish();
  co_return Status::success();
}

}  // namespace

Task allreduce_exchange(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t slot = slot_bytes(call.bytes);
  const std::size_t own = static_cast<std::size_t>(t.rank()) * slot;
  Completion sent;
  bool made = false;
  co_await enter_segment(t, k, slot * static_cast<std::size_t>(t.size()), &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  // Sent and folded from the segment: the receive buffer may be the operand.
  std::byte* const operand = t.segment().data(own);
  place_shared(t, operand, call.send, call.bytes);
  co_await put_to_everyone(t, kOperands, own, operand, call.bytes, &sent);
  co_await fold_slots(t, call, slot, operand, call.recv, call.bytes);
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

Task allreduce_split_exchange(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const int size = t.size(), me = t.rank();
  const Partition parts(call.bytes, call.reduction->element_bytes, size);
  // The last part is the longest.
  const std::size_t slot = slot_bytes(parts.bytes(size - 1) + call.reduction->element_bytes);
  const std::size_t result = slot * static_cast<std::size_t>(size);
  Completion sent;
  bool made = false;
  co_await enter_segment(t, k, result + call.bytes, &made);
  if (!made) co_return Status::error(Code::no_memory, "no memory for the exchange");
  NodeSegment& segment = t.segment();
  for (int i = 1; i < size; ++i) {
    const int to = member_after(t, i);
    co_await segment.put_and_tell(to, NodeSegment::flag_of_node(me), kOperands,
                                  static_cast<std::size_t>(me) * slot,
                                  at(call.send, parts.begin(to)), parts.bytes(to), &sent);
  }
  std::byte* const mine = segment.data(result + parts.begin(me));
  co_await fold_slots(t, call, slot, at(call.send, parts.begin(me)), mine, parts.bytes(me));
  co_await put_to_everyone(t, kResult, result + parts.begin(me), mine, parts.bytes(me), &sent);
  // The operands leave from the receive buffer, where it is that of the operands too.
  if (call.send == call.recv) co_await all_sent(t, sent);
  place(t, at(call.recv, parts.begin(me)), mine, parts.bytes(me));
  for (int i = size - 1; i > 0; --i) {
    const int member = member_after(t, i);
    co_await heard(t, member, kResult);
    place(t, at(call.recv, parts.begin(member)), segment.data(result + parts.begin(member)),
          parts.bytes(member));
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
