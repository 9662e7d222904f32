// How the members of a node are divided evenly along the machine: below one last-level cache, in
// one NUMA domain, in one package (coll/pattern/nested.hpp).
#pragma once

#include <array>
#include <vector>

#include "team/cell_tree.hpp"

namespace tutti {

/// Levels from the smallest parts out. At level l a member has a place among radix(l) peers, one of
/// each part that the level joins; the product of all radices is the number of members. A level
/// that does not divide the members evenly is left out, and joined to the next. Pure.
class MachineLevels {
 public:
  static constexpr int kMost = 4;

  /// As `rank` sees them.
  MachineLevels(int rank, const PlacedMembers& all);

  int count() const noexcept { return count_; }
  int radix(int level) const noexcept { return radix_[static_cast<std::size_t>(level)]; }
  /// This rank's place at that level.
  int place(int level) const noexcept { return position_ / stride(level) % radix(level); }
  /// The member that differs from this one in its place at that level alone.
  int peer(int level, int place_there) const noexcept {
    return member_at(position_ + (place_there - place(level)) * stride(level));
  }
  /// Whether they differ in their places at one level alone.
  bool is_peer(int member) const noexcept {
    int levels = 0;
    for (int level = 0; level < count_; ++level)
      levels += position_of(member) / stride(level) % radix(level) != place(level);
    return levels == 1;
  }
  /// visit(peer) is true of the peers at all levels. Asks none after the first of which it is not.
  template <class Visit>
  bool all_peers(Visit&& visit) const {
    for (int level = 0; level < count_; ++level) {
      for (int there = 0; there < radix(level); ++there)
        if (there != place(level) && !visit(peer(level, there))) return false;
    }
    return true;
  }
  /// This rank has the same place as that member at this level and at all above it.
  bool is_near(int member, int level) const noexcept {
    return position_ / stride(level) == position_of(member) / stride(level);
  }
  /// Members of a part that one level joins have positions that follow each other; those whose
  /// places differ at a level alone, positions that are a multiple of its stride apart.
  int stride(int level) const noexcept {
    int stride = 1;
    for (int below = 0; below < level; ++below) stride *= radix(below);
    return stride;
  }
  int position() const noexcept { return position_; }
  int member_at(int position) const noexcept {
    return members_.empty() ? position : members_[static_cast<std::size_t>(position)];
  }
  /// What is folded level by level, in the order of the places, is folded in the order of ranks.
  bool in_rank_order() const noexcept { return members_.empty(); }

 private:
  int position_of(int member) const noexcept {
    return positions_.empty() ? member : positions_[static_cast<std::size_t>(member)];
  }

  std::array<int, kMost> radix_{};
  int count_ = 0;
  int position_ = 0;
  // Unless the members are in rank order: who is where, and where each of them is.
  std::vector<int> members_, positions_;
};

}  // namespace tutti
