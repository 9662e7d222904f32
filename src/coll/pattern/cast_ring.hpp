// What a root has, cast to all members, with a reliable ring that repairs it (MCAST-2007): the
// whole of a broadcast, or the second half of a reduction whose result all members want.
#pragma once

#include <cstdint>

#include "base/task.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Waits for the surveys that come before this collective (team/cast_watch.hpp), after
/// Team::open_multicast(). `*casts`: whether the members cast, or have left multicast; the same on
/// all of them.
Task await_surveys(Collective& c, bool* casts) noexcept;

/// Stage 1: the root casts call.bytes of call.recv in fragments of a datagram. Stage 2: whoever has
/// a fragment is a root for the member behind it, and puts the fragment there, unless that member
/// has told that it has it. Nobody waits for a timeout: a member that has everything leaves, one
/// that lacks something gets it from the member before it, which got it by multicast, or by the
/// ring in turn.
///
/// Where many in a row have lost a fragment the ring takes a step for each of them. With chords, a
/// member that has lost it and got it by the ring or a chord puts it also to the members that are
/// 2, 4, 8, ... places behind, so that a run of L is over in about log2 L steps. `chords` is the
/// number of these distances: 1 is the paper's ring.
///
/// Between Collective::enter and finish. The algorithm must be `watched`: a survey is part of it.
Task cast_and_repair(Collective& c, std::int64_t chords) noexcept;

}  // namespace tutti
