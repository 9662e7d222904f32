// Rounds in which every member of a team puts something into the segment of every other one: one
// latency where trees and rings have several, for N - 1 messages a member.
#pragma once

#include <cstddef>

#include "coll/pattern/segment.hpp"

namespace tutti {

/// Member i after this one, so that not all begin with the same.
inline int member_after(const Collective& c, int i) noexcept { return (c.rank() + i) % c.size(); }

/// Puts the same bytes to the same place at everybody, and says so.
inline Status put_to_everyone(Collective& c, std::uint64_t phase, std::size_t offset,
                              const void* source, std::size_t bytes, Completion* sent) noexcept {
  NodeSegment& segment = c.team.segment();
  const int mine = NodeSegment::flag_of_node(c.rank());
  for (int i = 1; i < c.size(); ++i) {
    TUTTI_TRY(segment.put_and_signal(member_after(c, i), mine, phase, offset, source, bytes, sent));
  }
  return Status::success();
}

/// Awaits what `member` has put here in `phase`.
inline Engine::Reached signalled(Collective& c, int member, std::uint64_t phase) noexcept {
  return c.team.segment().signalled(NodeSegment::flag_of_node(member), phase, member);
}

}  // namespace tutti
