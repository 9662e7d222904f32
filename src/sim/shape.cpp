#include "sim/shape.hpp"

#include <algorithm>

namespace tutti::sim {

Shape shape_of(const Team& team, const Fabric& fabric, const Call& call) noexcept {
  Shape shape;
  shape.coll = call.coll;
  shape.bytes = call.bytes;
  shape.size = team.size();
  shape.mapped = team.mapped();
  shape.layered = team.layers() != nullptr;
  shape.lanes = shape.layered ? team.layers()->each() : 0;
  shape.mail = !team.mapped() && !team.elided() && team.size() <= Inbox::kMostMail;
  shape.acks =
      !team.mapped() && team.size() <= (team.elided() ? Inbox::kMostElidedMail : Inbox::kMostMail);
  shape.bypass = fabric.traits().bypass;
  shape.datagram = fabric.traits().datagram_bytes;
  shape.segments = !team.mapped() && team.size() <= kMostWithSegments;
  shape.alone =
      shape.segments && fabric.node_of(team.job_rank(0)) != fabric.node_of(team.job_rank(1));
  shape.user_memory = fabric.traits().user_memory;
  shape.block_bytes = team.block_bytes();
  if (call.reduction != nullptr) {
    shape.element_bytes = call.reduction->element_bytes;
    shape.divisible = call.reduction->divisible;
    shape.commutative = call.reduction->commutative;
  }
  if (call.coll == Coll::allgatherv) {
    shape.longest_block = *std::max_element(call.counts, call.counts + team.size());
  }
  return shape;
}

std::uint64_t items_of(const Choice& choice, const Shape& shape) noexcept {
  return choice.algorithm->items == nullptr ? 0 : choice.algorithm->items(shape, choice.parameters);
}

Task run_selected(Team& team, const Call& call) {
  if (moves_nothing(call)) co_return Status::success();
  const Shape shape = shape_of(team, team.fabric(), call);
  const auto* forced = static_cast<const Forced*>(team.host_data);
  const Choice choice = choose(shape, forced != nullptr ? *forced : Forced{});
  if (choice.algorithm == nullptr)
    co_return Status::error(Code::unsupported, "no algorithm can run in a layer");
  Collective collective(team, call);
  collective.take_place(items_of(choice, shape));
  if (choice.algorithm->casts) co_await team.open_multicast();
  if (!team.connected()) co_await team.connect();
  co_await choice.algorithm->run(collective, choice.parameters);
  co_return Status::success();
}

}  // namespace tutti::sim
