// Trees as pure functions of (rank, size): who sends to whom. No communication here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti {

/// The binomial tree of VIA-2003, Figure 1. Ranks are relative to the root: 0 is the root. In round
/// i (from 0) every rank below 2^i sends to the rank 2^i above it.
class BinomialTree {
 public:
  BinomialTree(int rank, int size) noexcept : rank_(rank), size_(size) {
    std::int64_t bit = 1;
    while (bit <= rank) bit <<= 1;
    first_ = bit;  // the first round in which this rank sends
    parent_ = rank == 0 ? -1 : static_cast<int>(rank - (bit >> 1));
  }
  /// -1 for the root.
  int parent() const noexcept { return parent_; }
  /// The i-th child in sending order, or -1 when there is none.
  int child(int i) const noexcept {
    const std::int64_t child = rank_ + (first_ << i);
    return child < size_ ? static_cast<int>(child) : -1;
  }

 private:
  int rank_;
  int size_;
  int parent_;
  std::int64_t first_;
};

/// The degree-k tree of VIA-2003, section 4.2, Figures 3 and 4, for any number of ranks: in step s
/// rank r (a multiple of (k+1)^(s+1)) receives from r + j (k+1)^s, j = 1 ... k, as far as they
/// exist. Every subtree is a contiguous range of ranks, so folding children in order keeps rank
/// order.
class DegreeTree {
 public:
  DegreeTree(int rank, int size, int degree) noexcept : rank_(rank), size_(size), degree_(degree) {
    const std::int64_t base = degree + 1;
    std::int64_t reach = 1;
    while (reach < size && rank % (reach * base) == 0) {
      reach *= base;
      ++steps_;
    }
    if (rank != 0) {
      const std::int64_t group = rank / (reach * base) * (reach * base);
      parent_ = static_cast<int>(group);
      const auto order = static_cast<int>((rank - group) / reach);  // 1 ... k
      block_ = steps_ * degree + order - 1;
    }
  }
  /// -1 for rank 0.
  int parent() const noexcept { return parent_; }
  /// Steps in which this rank receives.
  int steps() const noexcept { return steps_; }
  /// The block of the parent that this rank fills.
  int block() const noexcept { return block_; }
  /// Child j (1 ... k) of step s, or -1 when there is none.
  int child(int step, int j) const noexcept {
    const std::int64_t child = rank_ + j * reach(step);
    return child < size_ ? static_cast<int>(child) : -1;
  }
  /// Ranks in the subtree of that child, itself included: they follow each other from it on.
  int subtree(int step, int j) const noexcept {
    return static_cast<int>(std::min(reach(step), size_ - (rank_ + j * reach(step))));
  }
  /// The own block that this child fills.
  int block_of(int step, int j) const noexcept { return step * degree_ + j - 1; }

 private:
  std::int64_t reach(int step) const noexcept {
    std::int64_t reach = 1;
    for (int i = 0; i < step; ++i) reach *= degree_ + 1;
    return reach;
  }

  int rank_;
  int size_;
  int degree_;
  int steps_ = 0;
  int parent_ = -1;
  int block_ = -1;
};

/// The tree of a broadcast: every rank has up to `degree` children a step. Degree 1 is the binomial
/// tree; the others are degree-k trees from the root down, the largest subtrees first. Ranks are
/// relative to the root. Where a message's latency is long and its overhead short, few steps win.
class BroadcastTree {
 public:
  BroadcastTree(int rank, int size, int degree) noexcept
      : binomial_(rank, size), tree_(rank, size, degree), degree_(degree) {}
  /// -1 for the root.
  int parent() const noexcept { return degree_ == 1 ? binomial_.parent() : tree_.parent(); }
  /// The i-th child in sending order, or -1 when there is none.
  int child(int i) const noexcept {
    if (degree_ == 1) return binomial_.child(i);
    for (int step = tree_.steps() - 1; step >= 0; --step) {
      for (int j = 1; j <= degree_ && tree_.child(step, j) >= 0; ++j) {
        if (i-- == 0) return tree_.child(step, j);
      }
    }
    return -1;
  }

 private:
  BinomialTree binomial_;
  DegreeTree tree_;
  int degree_;
};

}  // namespace tutti
