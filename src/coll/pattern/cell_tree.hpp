// The tree in which the ranks of a large node pass small messages: through cells that only
// neighbours read, so that no line has more readers than a rank has neighbours. A pure function of
// (rank, size); coll/pattern/through_tree.hpp is what communicates in it.
#pragma once

#include "coll/pattern/tree.hpp"

namespace tutti {

/// The degree-k tree (VIA-2003, section 4.2), rooted at rank 0. A message of another root takes the
/// same edges, so a cell's readers are always the same.
class CellTree {
 public:
  CellTree(int rank, int size, int degree) noexcept
      : tree_(rank, size, degree), rank_(rank), degree_(degree) {}

  int degree() const noexcept { return degree_; }
  /// -1 for rank 0.
  int parent() const noexcept { return tree_.parent(); }
  bool has_children() const noexcept { return child(0) >= 0; }
  /// The i-th child in the order of their ranks, or -1. Every subtree is a range of ranks.
  int child(int i) const noexcept {
    const int step = i / degree_;
    return step < tree_.steps() ? tree_.child(step, i % degree_ + 1) : -1;
  }
  /// The parent, and then the children, or -1.
  int neighbour(int i) const noexcept {
    if (parent() < 0) return child(i);
    return i == 0 ? parent() : child(i - 1);
  }
  /// The neighbour from which what `root` sends comes; -1: this is the root.
  int towards(int root) const noexcept {
    if (root == rank_) return -1;
    for (int i = 0; child(i) >= 0; ++i) {
      const int subtree = tree_.subtree(i / degree_, i % degree_ + 1);
      if (root >= child(i) && root < child(i) + subtree) return child(i);
    }
    return parent();
  }

 private:
  DegreeTree tree_;
  int rank_;
  int degree_;
};

}  // namespace tutti
