// Which stores pay for memory that another core reads: those that leave the lines in this core's
// cache, those that go past it, or the processor's own string copy, which does what suits it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

enum class Stores : std::uint8_t { cached, streaming, string };
inline constexpr std::size_t kStores = 3;

/// Chooses by what the kinds cost of late. Where the two cores share a cache, cached stores are
/// better than streaming ones; where they do not, each line has to come from the other core before
/// it can be written, and streaming is. Under a hypervisor this changes while a program runs, so
/// the kinds that are not in use are tried now and then. A choice concerns nobody but the writer,
/// so ranks may differ. Not thread-safe: one per thread.
class StoreChoice {
 public:
  /// A kind is chosen over cached stores when these cost more than its factor times as much, and
  /// never when that is 0: the reader pays, too, which the writer does not see.
  constexpr StoreChoice(float streaming, float string) noexcept : factors_{1, streaming, string} {}

  struct Decision {
    Stores stores;
    bool timed;  // record() is to be told what it cost
  };

  Decision next() noexcept {
    const std::uint32_t turn = turn_++;
    const std::uint32_t place = turn % (better_ == Stores::streaming ? kStreamingTurns : kTurns);
    if (place == kFirstTrial) return {other(0), true};
    if (place == kSecondTrial) return {other(1), true};
    return {better_, turn % kTimed == 0};
  }

  /// The better of the other two, for a copy that strings do not suit.
  Stores best_vectors() const noexcept {
    const float streaming = weighed(Stores::streaming);
    return streaming != 0 && streaming < weighed(Stores::cached) ? Stores::streaming
                                                                 : Stores::cached;
  }

  /// What a copy cost, in any unit, per byte or line.
  void record(Stores stores, float cost) noexcept {
    float& estimate = costs_[index(stores)];
    // A copy that took long may have been interrupted, and says less than one that did not.
    if (estimate == 0) {
      estimate = cost;
    } else if (cost < estimate) {
      estimate -= (estimate - cost) / 2;
    } else {
      estimate += (std::min(cost, 4 * estimate) - estimate) / 4;
    }
    for (const Stores one : {Stores::cached, Stores::streaming, Stores::string})
      if (weighed(one) != 0 && weighed(one) < weighed(better_)) better_ = one;
  }

 private:
  static constexpr std::uint32_t kTimed = 4;            // one copy of so many is timed
  static constexpr std::uint32_t kTurns = 128;          // from one trial of the others to the next
  static constexpr std::uint32_t kStreamingTurns = 32;  // the same while streaming is the better
  static constexpr std::uint32_t kFirstTrial = 9, kSecondTrial = 13;

  static constexpr std::size_t index(Stores stores) noexcept {
    return static_cast<std::size_t>(stores);
  }
  /// Those that are not in use, counted from 0; past the last, the one that is.
  Stores other(int which) const noexcept {
    for (const Stores one : {Stores::cached, Stores::streaming, Stores::string})
      if (factors_[index(one)] != 0 && one != better_ && which-- == 0) return one;
    return better_;
  }
  /// What it costs both sides; 0: not known.
  float weighed(Stores stores) const noexcept {
    return factors_[index(stores)] * costs_[index(stores)];
  }

  std::array<float, kStores> factors_;
  std::array<float, kStores> costs_{};
  std::uint32_t turn_ = 0;
  Stores better_ = Stores::cached;
};

}  // namespace tutti
