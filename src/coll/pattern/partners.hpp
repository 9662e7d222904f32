// The partners of recursive doubling and halving, for any number of members.
#pragma once

namespace tutti {

/// Who is whose partner. Where the number of members is no power of two, the first `extra` pairs of
/// neighbours (2i, 2i + 1) begin as one: the odd one takes part for both. Groups are ranges, so the
/// rank order is kept.
class Partners {
 public:
  Partners(int rank, int size) noexcept : rank_(rank) {
    while (2 * power_ <= size) power_ *= 2;
    extra_ = size - power_;
    paired_ = rank < 2 * extra_;
    number_ = paired_ ? rank / 2 : rank - extra_;
  }
  bool represented() const noexcept { return paired_ && rank_ % 2 == 0; }  // by its neighbour
  bool represents() const noexcept { return paired_ && rank_ % 2 != 0; }
  int neighbour() const noexcept { return rank_ ^ 1; }
  int rounds() const noexcept {
    int rounds = 0;
    while (1 << rounds < power_) ++rounds;
    return rounds;
  }
  /// Whether the one of the lower rank in a round is the other one.
  bool upper(int round) const noexcept { return (number_ >> round & 1) != 0; }
  int partner(int round) const noexcept {
    const int other = number_ ^ (1 << round);
    return other < extra_ ? 2 * other + 1 : other + extra_;
  }

 private:
  int rank_;
  int power_ = 1;
  int extra_ = 0;
  bool paired_ = false;
  int number_ = 0;
};

}  // namespace tutti
