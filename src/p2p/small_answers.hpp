// Messages of 4 to 16 KiB that go back and forth between two ranks of a node: by which stores they
// are written.
//
// Whoever waits for a message fetches its lines as soon as they are there, so other stores may be
// better than for messages that go one after the other (StoreChoice). What they cost the reader the
// writer sees in the time of the round trip. Each rank tries for itself.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "p2p/answers.hpp"
#include "p2p/two_ways.hpp"

namespace tutti::p2p {

/// Of one peer; under the engine's guard.
class SmallAnswers {
 public:
  static constexpr std::size_t kLeast = std::size_t{4} << 10, kMost = Answers::kLeast - 1;
  static constexpr bool suits(std::size_t bytes) noexcept {
    return bytes >= kLeast && bytes <= kMost;
  }

  /// A blocking send of a suitable size is about to begin, and the last that this rank has done was
  /// to receive such a message of the peer. True: by streaming stores. `first`: of the two, which
  /// must not try both at once.
  bool send(std::size_t bytes, bool first, std::uint64_t now) noexcept {
    kind_ = kind_of(bytes);
    streams_ = kinds_[kind_].choose(!first);
    begun_ = kinds_[kind_].counts() ? now : 0;
    return streams_;
  }
  /// A blocking receive of a suitable size is over.
  void receive(std::size_t bytes, std::uint64_t now) noexcept {
    if (begun_ != 0 && kind_of(bytes) == kind_)
      kinds_[kind_].note(streams_, static_cast<float>(now - begun_));
    begun_ = 0;
  }

 private:
  static constexpr std::size_t kind_of(std::size_t bytes) noexcept {
    return static_cast<std::size_t>(std::bit_width(bytes - 1) - std::bit_width(kLeast - 1));
  }
  // Until all of the ring is as these stores leave it: one lap of the smallest.
  static constexpr std::uint32_t kInARow = 512;
  static constexpr std::size_t kKinds =
      std::bit_width(kMost - 1) - std::bit_width(kLeast - 1) + 1;

  std::array<TwoWays<kInARow, 32 * kInARow>, kKinds> kinds_;
  bool streams_ = false;     // how the last one went
  std::size_t kind_ = 0;     // its size
  std::uint64_t begun_ = 0;  // when it began, in ticks; 0: nothing is measured
};

}  // namespace tutti::p2p
