// Which of two ways of sending an answer makes the round trips shorter: both are tried.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::p2p {

/// For messages of about one size. A trial goes the first way so many times in a row, then the
/// second, and comes again after 32 times as many, because processors and programs change; after
/// four times that, where two trials have agreed and one way took more than half as long again as
/// the other. The first ones find the caches as the other way has left them, so only the second
/// half of each counts, of which `enough` must have been measured: the second way is neither tried
/// nor taken where the first one could not be. The first way is taken where both are alike: another
/// one must take less than `worth` of the time, in later trials `later_worth`. Not thread-safe.
class TwoWays {
 public:
  constexpr TwoWays(std::uint32_t in_a_row, std::uint32_t enough, float worth,
                    float later_worth) noexcept
      : in_a_row_(in_a_row), enough_(enough), worth_(worth), later_worth_(later_worth) {}

  /// The way of the next one: true, the second. `later`: of two ranks that both try, one does so
  /// when the other one does not, but for the first time.
  bool choose(bool later = false) noexcept {
    const std::uint32_t trial = 2 * in_a_row_, again = 32 * in_a_row_;
    const std::uint32_t turn = turn_++;
    const std::uint32_t place = (later && turn >= trial ? turn + again / 2 : turn) % again;
    const bool tries = place < trial && left_out_ == 0;
    counts_ = tries && place % in_a_row_ >= in_a_row_ / 2;
    if (tries) {
      known_ = place < in_a_row_ || ways_[false].trips >= enough_;
      return place >= in_a_row_ && known_;
    }
    if (turn == trial || (place == trial && left_out_ == 0)) {
      compare(turn == trial);
    } else if (place == trial) {
      --left_out_;
    }
    return better_;
  }
  /// Whether it matters what the last one took.
  bool counts() const noexcept { return counts_; }
  /// Whether the last one was part of a trial, or went as the last trial has shown. False: that
  /// trial has shown nothing.
  bool known() const noexcept { return known_; }
  /// What a round trip took that counts, in any unit.
  void note(bool way, float time) noexcept { ways_[way].add(time); }

 private:
  struct Way {
    float fastest = 0, second = 0, sum = 0;
    std::uint32_t trips = 0;

    /// One that took long may have been interrupted. The very fastest says less of what is usual
    /// than the one after it. No exception of floating-point numbers is raised: it would be the
    /// program's.
    void add(float time) noexcept {
      constexpr float kLong = 1.25F;
      const float slower = std::max(fastest, time);
      fastest = trips == 0 ? time : std::min(fastest, time);
      second = trips < 2 ? slower : std::min(second, slower);
      const float most = kLong * second;
      sum = std::min(sum, most * static_cast<float>(trips)) + std::min(time, most);
      ++trips;
    }
    float mean() const noexcept { return sum / static_cast<float>(trips); }
  };

  static constexpr float kFar = 1.5F;

  void compare(bool first_trial) noexcept {
    known_ = ways_[false].trips >= enough_ && ways_[true].trips >= enough_;
    const bool in_use = !first_trial && better_;
    const float worth = first_trial ? worth_ : later_worth_;
    const bool change = known_ && ways_[!in_use].mean() < worth * ways_[in_use].mean();
    better_ = known_ && in_use != change;
    const bool agreed = known_ && !first_trial && !change;
    left_out_ = agreed && ways_[!better_].mean() > kFar * ways_[better_].mean() ? 3 : 0;
    ways_ = {};
  }

  std::array<Way, 2> ways_{};
  std::uint32_t in_a_row_, enough_;  // powers of two
  float worth_, later_worth_;
  std::uint32_t turn_ = 0;
  std::uint8_t left_out_ = 0;  // so many trials
  bool better_ = false, counts_ = false, known_ = false;
};

}  // namespace tutti::p2p
