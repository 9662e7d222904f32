// How the members of a node are divided evenly along the machine: below one last-level cache, in
// one NUMA domain, in one package. For large messages (coll/allreduce/nested.cpp).
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
    const int position = position_ + (place_there - place(level)) * stride(level);
    return members_.empty() ? position : members_[static_cast<std::size_t>(position)];
  }
  /// What is folded level by level, in the order of the places, is folded in the order of ranks.
  bool in_rank_order() const noexcept { return members_.empty(); }

 private:
  int stride(int level) const noexcept {
    int stride = 1;
    for (int below = 0; below < level; ++below) stride *= radix(below);
    return stride;
  }

  std::array<int, kMost> radix_{};
  int count_ = 0;
  int position_ = 0;
  std::vector<int> members_;  // by position, unless they are in rank order
};

}  // namespace tutti
