// Collectives through the nodes' shared buffers (team/node_segment.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "coll/collective.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

/// Begins a collective of a team that uses segments: its turn comes, and the segments of all nodes
/// hold `bytes`. `*made` is false, on all members alike, where a node has no memory for it.
Task enter_segment(Collective& c, std::size_t bytes, bool* made) noexcept;

/// A network in the kernel takes the processor of whoever puts, for as long as `bytes` take: a
/// program that starts a collective in order to compute leaves that to the progress thread
/// (Engine::later). What is not much is put at once: it is over before that thread has awoken.
inline bool puts_take_long(Collective& c, std::size_t bytes) noexcept {
  constexpr std::size_t kMuch = std::size_t{64} << 10;
  return bytes >= kMuch && !c.team.mapped() && !c.team.fabric().traits().bypass &&
         c.team.engine().background().attended();
}

/// Who exchanges what with whom in an allgather over nodes: recursive doubling where their number
/// is a power of two (ALLGATHER-2006, section 4), else every node hands on what it has to the one
/// before (Bruck's). Ranges of nodes go on at 0 after the last one.
class NodeSteps {
 public:
  NodeSteps(int node, int nodes) noexcept
      : node_(node), nodes_(nodes), pairs_((nodes & (nodes - 1)) == 0) {
    while (1 << steps_ < nodes) ++steps_;
  }
  struct Range {
    int first, count;
  };
  int steps() const noexcept { return steps_; }
  int to(int step) const noexcept {
    const int have = 1 << step;
    return pairs_ ? node_ ^ have : (node_ + nodes_ - have) % nodes_;
  }
  int from(int step) const noexcept {
    const int have = 1 << step;
    return pairs_ ? node_ ^ have : (node_ + have) % nodes_;
  }
  Range sent(int step) const noexcept { return range(node_, step); }
  Range received(int step) const noexcept { return range(from(step), step); }

 private:
  Range range(int node, int step) const noexcept {
    const int have = 1 << step;
    if (pairs_) return {node / have * have, have};
    return {node, have < nodes_ - have ? have : nodes_ - have};
  }

  int node_;
  int nodes_;
  bool pairs_;
  int steps_ = 0;
};

/// Where the blocks of an allgather lie in the segment: node by node, without gaps.
class SegmentBlocks {
 public:
  /// All blocks of `bytes`, or of counts[member] each.
  SegmentBlocks(const NodeMap& map, std::size_t bytes, const std::size_t* counts) : bytes_(bytes) {
    if (counts == nullptr) return;
    begins_.reserve(map.members.size() + 1);
    begins_.push_back(0);
    for (const int member : map.members) begins_.push_back(begins_.back() + counts[member]);
  }
  /// Of the block at `position` in NodeMap::members.
  std::size_t begin(int position) const noexcept {
    const auto i = static_cast<std::size_t>(position);
    return begins_.empty() ? i * bytes_ : begins_[i];
  }
  std::size_t bytes(int position) const noexcept { return begin(position + 1) - begin(position); }

 private:
  std::size_t bytes_;
  std::vector<std::size_t> begins_;
};

}  // namespace tutti
