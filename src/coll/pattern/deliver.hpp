// Parcels between members of a team on networks: what each has for each other one.
#pragma once

#include "coll/collective.hpp"
#include "coll/parcels.hpp"

namespace tutti {

/// Sends and receives all of them, and those that the rank keeps for itself. Small ones go by letter
/// (team/letters.hpp); large ones, and all between members that have had nothing for each other
/// before, are put straight into their places, to which the receiver invites (VIA-2003, section
/// 3.3). Members that have nothing for each other say nothing to each other. In the place of
/// Collective::enter(): an algorithm that delivers does nothing else between members.
/// It may do so several times; of exchanges in which two members invite each other the later ones
/// have a higher `turn`, the same at both.
Task deliver(Collective& c, const Parcels& parcels, int turn = 0) noexcept;

}  // namespace tutti
