// The tree in which the ranks of a large node pass small messages: through cells that only
// neighbours read, so that no line has more readers than a rank has neighbours. No communication
// here; coll/pattern/through_tree.hpp is what communicates in it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "topo/locality.hpp"

namespace tutti {

/// In which order a team's members stand in a tree, and where each of them runs.
struct PlacedMembers {
  std::vector<int> members;      // by position; rank 0 is the first one
  std::vector<Locality> places;  // by position
  bool in_rank_order = true;

  /// The parts of a machine, from the smallest: caches, NUMA domains, packages, and the node.
  static constexpr int kLevels = 4;
  /// These two, by position, run in one part of a level.
  bool same_part(int a, int b, int level) const noexcept;

  /// Members of one package follow each other, in it those of one NUMA domain, and in that those of
  /// one last-level cache: each of these parts where its first member is, within it by rank. Pure.
  static PlacedMembers by_locality(std::vector<Locality> places_by_rank);
  /// By rank, as if all of them ran at one place.
  static PlacedMembers by_rank(int size);
};

/// A tree of the members as one of them sees it, rooted at rank 0. The members below one last-level
/// cache are joined first, by the degree-k tree (VIA-2003, section 4.2); then their first ones
/// within a NUMA domain, within a package, and all: so a package is left by one edge. A message of
/// another root takes the same edges, so a cell's readers are always the same.
class CellTree {
 public:
  CellTree(int rank, int degree, const PlacedMembers& all);

  /// -1 for rank 0.
  int parent() const noexcept { return parent_; }
  bool has_children() const noexcept { return !children_.empty(); }
  /// The i-th child, or -1. The subtrees follow each other in the members' order.
  int child(int i) const noexcept {
    const auto index = static_cast<std::size_t>(i);
    return index < children_.size() ? children_[index].member : -1;
  }
  /// The parent, and then the children, or -1.
  int neighbour(int i) const noexcept {
    if (parent_ < 0) return child(i);
    return i == 0 ? parent_ : child(i - 1);
  }
  /// The neighbour from which what `root` sends comes; -1: this is the root.
  int towards(int root) const noexcept;
  /// Every subtree is a range of ranks.
  bool in_rank_order() const noexcept { return positions_.empty(); }

 private:
  struct Child {
    int member;
    int begin, end;  // the positions of its subtree
  };
  void join(std::vector<int> firsts, int end, int degree, const PlacedMembers& all);

  int rank_, position_ = 0;
  int parent_ = -1;
  std::vector<Child> children_;
  std::vector<int> positions_;  // by rank, unless they are the ranks
};

}  // namespace tutti
