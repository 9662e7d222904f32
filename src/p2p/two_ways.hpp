// Which of two ways of sending an answer makes the round trips shorter: both are tried.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::p2p {

/// For messages of about one size. A trial goes one way kInARow times, then the other, and comes
/// again every kAgain messages, because processors and programs change. The first ones find the
/// caches as the other way has left them, so only the second half of each counts. Where nothing can
/// be measured, the first way is the only one. Not thread-safe.
template <std::uint32_t kInARow, std::uint32_t kAgain>
class TwoWays {
 public:
  /// The way of the next one. `later`: of two ranks that both try, one does so when the other one
  /// does not.
  bool choose(bool later = false) noexcept {
    constexpr std::uint32_t kTrial = 2 * kInARow;
    const std::uint32_t turn = turn_++;
    const std::uint32_t place = (later && turn >= kTrial ? turn + kAgain / 2 : turn) % kAgain;
    counts_ = place < kTrial && place % kInARow >= kInARow / 2;
    if (place < kTrial) return place >= kInARow && ways_[false].trips != 0;
    if (place == kTrial || turn == kTrial) compare();
    return better_;
  }
  /// Whether it matters what the last one took.
  bool counts() const noexcept { return counts_; }
  /// What a round trip took that counts, in any unit.
  void note(bool way, float time) noexcept {
    Way& of = ways_[way];
    of.fastest = of.trips++ == 0 ? time : std::min(of.fastest, time);
    of.sum += std::min(time, 1.25F * of.fastest);  // a long one may have been interrupted
  }

 private:
  struct Way {
    float fastest = 0, sum = 0;
    std::uint32_t trips = 0;

    float mean() const noexcept { return sum / static_cast<float>(trips); }
  };

  /// The first way is taken where both are alike.
  void compare() noexcept {
    constexpr float kWorth = 0.95F;
    if (ways_[false].trips != 0 && ways_[true].trips != 0)
      better_ = ways_[true].mean() < kWorth * ways_[false].mean();
    ways_ = {};
  }

  std::array<Way, 2> ways_{};
  std::uint32_t turn_ = 0;
  bool better_ = false, counts_ = false;
};

}  // namespace tutti::p2p
