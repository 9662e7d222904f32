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
#include <optional>

#include "base/store_choice.hpp"
#include "p2p/answers.hpp"
#include "p2p/packet.hpp"
#include "p2p/two_ways.hpp"

namespace tutti::p2p {

/// Of one peer; under the engine's guard.
class SmallAnswers {
 public:
  static constexpr std::size_t kLeast = std::size_t{4} << 10, kMost = Answers::kLeast - 1;
  static_assert(kMost <= kMostPayload);
  static constexpr bool suits(std::size_t bytes) noexcept {
    return bytes >= kLeast && bytes <= kMost;
  }

  /// A blocking send of a suitable size is about to begin, and the last that this rank has done was
  /// to receive such a message of the peer. By which stores; none: no trial has shown anything.
  /// `first`: of the two, which must not try both at once.
  std::optional<Stores> choose(std::size_t bytes, bool first) noexcept {
    kind_ = kind_of(bytes);
    streams_ = kinds_[kind_].choose(!first);
    awaited_ = false;
    if (!kinds_[kind_].known()) return std::nullopt;
    return streams_ ? Stores::streaming : Stores::cached;
  }
  /// Packets of all kinds to the peer, and of it, since it is known.
  struct Packets {
    std::uint64_t sent, received;
    bool operator==(const Packets&) const = default;
  };
  /// It began at `now`, in ticks, and has been written that way. `packets`: with it.
  void note_written(std::uint64_t now, Packets packets) noexcept {
    awaited_ = kinds_[kind_].counts();
    begun_ = now;
    packets_ = packets;
  }
  /// A blocking receive of a suitable size is over. `packets`: without it. It was a round trip where
  /// nothing else has been sent, by either.
  void receive(std::size_t bytes, std::uint64_t now, Packets packets) noexcept {
    if (awaited_ && packets == packets_ && kind_of(bytes) == kind_ && now > begun_)
      kinds_[kind_].note(streams_, static_cast<float>(now - begun_));
    awaited_ = false;
  }

 private:
  static constexpr std::size_t kind_of(std::size_t bytes) noexcept {
    return static_cast<std::size_t>(std::bit_width(bytes) - std::bit_width(kLeast));
  }
  static constexpr std::size_t kKinds = std::bit_width(kMost) - std::bit_width(kLeast) + 1;

  // In a row so many that half of them fill a ring of 2 MiB: from then on its lines are as the way
  // leaves them. After the first trial, in which both ranks went the same way, one alone shows half
  // of the difference.
  static constexpr TwoWays kind(std::uint32_t in_a_row) noexcept {
    return {in_a_row, in_a_row / 4, 0.95F, 0.975F};
  }
  std::array<TwoWays, kKinds> kinds_{kind(1024), kind(512), kind(256)};  // 4, 8, 16 KiB
  bool streams_ = false;     // how the last one went
  bool awaited_ = false;     // the peer's answer to it is to be measured
  std::size_t kind_ = 0;     // its size
  std::uint64_t begun_ = 0;  // when it began
  Packets packets_{};        // up to then
};

}  // namespace tutti::p2p
