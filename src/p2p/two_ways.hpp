// Which of two ways of sending an answer makes the round trips shorter: both are tried.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::p2p {

/// For messages of about one size. A trial goes the first way so many times in a row, then the
/// second, and comes again after 32 times as many, because processors and programs change. The
/// first ones find the caches as the other way has left them, so only the second half of each
/// counts, of which `enough` must have been measured: the second way is neither tried nor taken
/// where the first one could not be. Not thread-safe.
class TwoWays {
 public:
  constexpr TwoWays(std::uint32_t in_a_row, std::uint32_t enough) noexcept
      : in_a_row_(in_a_row), enough_(enough) {}

  /// The way of the next one: true, the second. `later`: of two ranks that both try, one does so
  /// when the other one does not, but for the first time.
  bool choose(bool later = false) noexcept {
    const std::uint32_t trial = 2 * in_a_row_, again = 32 * in_a_row_;
    const std::uint32_t turn = turn_++;
    const std::uint32_t place = (later && turn >= trial ? turn + again / 2 : turn) % again;
    counts_ = place < trial && place % in_a_row_ >= in_a_row_ / 2;
    if (place < trial) return place >= in_a_row_ && ways_[false].trips >= enough_;
    if (place == trial || turn == trial) compare(turn == trial);
    return better_;
  }
  /// Whether it matters what the last one took.
  bool counts() const noexcept { return counts_; }
  /// What a round trip took that counts, in any unit.
  void note(bool way, float time) noexcept { ways_[way].add(time); }

 private:
  struct Way {
    float fastest = 0, sum = 0;
    std::uint32_t trips = 0;

    /// One that took long may have been interrupted.
    void add(float time) noexcept {
      constexpr float kLong = 1.25F;
      fastest = trips == 0 ? time : std::min(fastest, time);
      const float before = std::min(sum, kLong * fastest * static_cast<float>(trips));
      sum = before + std::min(time, kLong * fastest);
      ++trips;
    }
    float mean() const noexcept { return sum / static_cast<float>(trips); }
  };

  /// The first way is taken where both are alike. After the first trial, in which both ranks went
  /// the same way, one alone shows half of the difference.
  void compare(bool first_trial) noexcept {
    constexpr float kFirst = 0.95F, kLater = 0.975F;
    const bool known = ways_[false].trips >= enough_ && ways_[true].trips >= enough_;
    const bool in_use = !first_trial && better_;
    const float worth = first_trial ? kFirst : kLater;
    const bool change = known && ways_[!in_use].mean() < worth * ways_[in_use].mean();
    better_ = known && in_use != change;
    ways_ = {};
  }

  std::array<Way, 2> ways_{};
  std::uint32_t in_a_row_, enough_;  // powers of two
  std::uint32_t turn_ = 0;
  bool better_ = false, counts_ = false;
};

}  // namespace tutti::p2p
