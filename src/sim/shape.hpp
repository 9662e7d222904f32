// What selection is told of a team in virtual time. Private to src/sim.
#pragma once

#include "base/task.hpp"
#include "coll/call.hpp"
#include "select/select.hpp"
#include "team/team.hpp"

namespace tutti::sim {

inline constexpr int kMostWithSegments = 4096;  // ranks: every arena has room for a segment

Shape shape_of(const Team& team, const Fabric& fabric, const Call& call) noexcept;

/// Stream items that the algorithm uses for this call.
std::uint64_t items_of(const Choice& choice, const Shape& shape) noexcept;

/// TeamResources::run_layer: a collective of a team by what selection takes there, or by what the
/// Forced at Team::host_data says, where that is set and can run.
Task run_selected(Team& team, const Call& call);

}  // namespace tutti::sim
