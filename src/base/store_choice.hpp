// Which stores pay for memory that another core reads: those that leave the lines in this core's
// cache, or those that go past it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti {

enum class Stores : std::uint8_t { cached, streaming };

/// Chooses by what both kinds cost of late. Where the two cores share a cache, cached stores are
/// the better; where they do not, each line has to come from the other core before it can be
/// written, and streaming is. Under a hypervisor this changes while a program runs, so the kind
/// that is not in use is tried now and then. A choice concerns nobody but the writer, so ranks may
/// differ. Not thread-safe: one per thread.
class StoreChoice {
 public:
  /// Streaming is chosen when cached stores cost more than `factor` times as much: the reader of
  /// streamed data pays for reading it from memory, which the writer does not see.
  explicit constexpr StoreChoice(float factor) noexcept : factor_(factor) {}

  struct Decision {
    Stores stores;
    bool timed;  // record() is to be told what it cost
  };

  Decision next() noexcept {
    const std::uint32_t turn = turn_++;
    const bool trial =
        turn % (better_ == Stores::cached ? kCachedTurns : kStreamingTurns) == kFirstTrial;
    if (trial) return {other(better_), true};
    return {better_, turn % kTimed == 0};
  }

  /// What a copy cost, in any unit, per byte or line.
  void record(Stores stores, float cost) noexcept {
    float& estimate = stores == Stores::cached ? cached_ : streaming_;
    // A copy that took long may have been interrupted, and says less than one that did not.
    if (estimate == 0) {
      estimate = cost;
    } else if (cost < estimate) {
      estimate -= (estimate - cost) / 2;
    } else {
      estimate += (std::min(cost, 4 * estimate) - estimate) / 4;
    }
    if (cached_ == 0 || streaming_ == 0) return;
    better_ = cached_ > factor_ * streaming_ ? Stores::streaming : Stores::cached;
  }

 private:
  static constexpr std::uint32_t kTimed = 4;            // one copy of so many is timed
  static constexpr std::uint32_t kCachedTurns = 128;    // from one trial of streaming to the next
  static constexpr std::uint32_t kStreamingTurns = 32;  // from one trial of cached stores
  static constexpr std::uint32_t kFirstTrial = 9;

  static Stores other(Stores stores) noexcept {
    return stores == Stores::cached ? Stores::streaming : Stores::cached;
  }

  float factor_;
  float cached_ = 0, streaming_ = 0;
  std::uint32_t turn_ = 0;
  Stores better_ = Stores::cached;
};

}  // namespace tutti
