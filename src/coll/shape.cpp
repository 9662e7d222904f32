// What selection is told of a team: by one rule for teams of real jobs, of jobs in virtual time,
// and of those that somebody only asks about.
#include <algorithm>

#include "coll/algorithm.hpp"
#include "fabric/fabric.hpp"
#include "team/team.hpp"

namespace tutti {
namespace {

/// What follows from who the members are (size, mapped) and from how they communicate.
void add_means(Shape& shape, const Traits& traits) noexcept {
  const bool elided = traits.elided_payload;
  shape.mail = !shape.mapped && Inbox::has_mail(shape.size, elided);
  shape.acks = !shape.mapped && shape.size <= (elided ? Inbox::kMostElidedMail : Inbox::kMostMail);
  shape.scarce = traits.scarce;
  shape.bypass = traits.bypass;
  shape.datagram = shape.mapped ? 0 : traits.datagram_bytes;
  shape.user_memory = traits.user_memory;
}

/// Flat teams whose members share nodes are those for letters, and others in virtual time, where
/// nodes are filled one after the other: the first two members tell.
bool on_nodes_of_their_own(const Team& team) noexcept {
  if (team.mapped() || team.layers() != nullptr || team.letters_only()) return false;
  const Fabric& fabric = team.fabric();
  return !team.symmetric() || fabric.node_of(team.job_rank(0)) != fabric.node_of(team.job_rank(1));
}

}  // namespace

Shape Shape::of(Team& team, bool fixed_order) noexcept {
  Shape shape;
  shape.size = team.size();
  shape.mapped = team.mapped();
  shape.hierarchical = team.layers() != nullptr;
  shape.lanes = shape.hierarchical ? team.layers()->each() : 0;
  add_means(shape, team.fabric().traits());
  if (shape.mapped) shape.add_levels(team.machine_levels());
  shape.alone = on_nodes_of_their_own(team);
  shape.everybody = shape.hierarchical && shape.mail;
  shape.segments = team.symmetric() ? team.has_segment_place() : shape.hierarchical || shape.mail;
  if (team.letters_only()) shape.segments = shape.acks = false;
  shape.dedicated = team.port != nullptr;
  shape.waits = shape.dedicated && team.waits;
  shape.fixed_order = fixed_order;
  shape.block_bytes = team.block_bytes();
  shape.hosted = team.hosted;
  return shape;
}

Shape Shape::of(const EvenLayout& layout, const Traits& traits, std::size_t block_bytes) noexcept {
  Shape shape;
  shape.size = layout.nodes * layout.each;
  shape.mapped = layout.nodes == 1;
  shape.hierarchical = layout.nodes > 1 && layout.each > 1;
  shape.lanes = shape.hierarchical ? layout.each : 0;
  add_means(shape, traits);
  shape.alone = layout.nodes > 1 && layout.each == 1;
  shape.everybody = shape.hierarchical && shape.mail;
  shape.segments = shape.hierarchical || shape.mail;
  shape.block_bytes = block_bytes;
  return shape;
}

void Shape::add_levels(const MachineLevels& machine) noexcept {
  levels = machine.count();
  nearest = levels == 0 ? 1 : machine.radix(0);
  levels_in_order = machine.in_rank_order();
}

Shape Shape::with(const Call& call) const noexcept {
  Shape shape = *this;
  shape.coll = call.coll;
  shape.bytes = call.bytes;
  if (call.reduction != nullptr) {
    shape.element_bytes = call.reduction->element_bytes;
    shape.divisible = call.reduction->divisible;
    shape.commutative = call.reduction->commutative;
    shape.at_once = call.reduction->sum != nullptr;
  }
  if (call.coll == Coll::allgatherv || call.coll == Coll::reduce_scatter)
    shape.longest_block = *std::max_element(call.counts, call.counts + size);
  return shape;
}

}  // namespace tutti
