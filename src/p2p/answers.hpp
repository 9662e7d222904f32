// Large messages that go back and forth between two ranks of a node: who copies them.
//
// Both ends copy all of it, through shared memory and at the same time, or each one half, in the
// kernel (the receiver reads and the sender writes; RDMA Read and Write of RNDV-2006; where the
// sender cannot, the receiver reads all of it). Which is faster depends on the processors, on where
// they are, and on whether the program has rewritten what it sends. So of the two ranks the first
// tries both and measures the round trips, and the other answers in the way it was asked.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "p2p/two_ways.hpp"

namespace tutti::p2p {

/// Of one peer; under the engine's guard.
class Answers {
 public:
  /// Of so many bytes; others go through shared memory.
  static constexpr std::size_t kLeast = (std::size_t{16} << 10) + 1;
  static constexpr bool suits(std::size_t bytes) noexcept { return bytes >= kLeast; }

  /// A blocking send of a suitable size is about to begin, and the last that this rank has done was
  /// to receive such a message of the peer, by receive(). True: by the kernel. `first`: this rank
  /// is the one that tries and measures.
  bool send(std::size_t bytes, bool first, std::uint64_t now_ns) noexcept {
    begun_ns_ = 0;
    if (owed_ > 0) return asked_by_kernel_;
    // Ranks that both send before they receive owe nothing: one of them must not wait.
    if (owed_ < 0 || !first) return false;
    kind_ = kind_of(bytes);
    by_kernel_ = kinds_[kind_].choose();
    begun_ns_ = kinds_[kind_].counts() ? now_ns : 0;
    return by_kernel_;
  }
  /// A blocking receive of a suitable size is over.
  void receive(std::size_t bytes, bool by_kernel, std::uint64_t now_ns) noexcept {
    asked_by_kernel_ = by_kernel;
    // Where more went, or came, in between, it was no round trip.
    if (begun_ns_ != 0 && owed_ == 0 && kind_of(bytes) == kind_)
      kinds_[kind_].note(by_kernel_, static_cast<float>(now_ns - begun_ns_));
    begun_ns_ = 0;
  }

  /// A message to the peer begins, or one of its is matched: of all kinds and sizes.
  void note_sent(std::size_t bytes) noexcept { owed_ -= suits(bytes) ? 1 : 0; }
  void note_matched(std::size_t bytes) noexcept { owed_ += suits(bytes) ? 1 : 0; }

 private:
  static std::size_t kind_of(std::size_t bytes) noexcept {
    return std::min(
        static_cast<std::size_t>(std::bit_width(bytes - 1) - std::bit_width(kLeast - 1)),
        kKinds - 1);
  }

  /// To 32 KiB; twice as much each; the rest. What takes long must not need many trips to be known.
  static constexpr std::size_t kKinds = 10;
  static constexpr TwoWays kSmall{16, 4, 0.95F, 0.95F}, kLarge{8, 2, 0.95F, 0.95F};
  std::array<TwoWays, kKinds> kinds_{kSmall, kSmall, kSmall, kSmall, kLarge,
                                     kLarge, kLarge, kLarge, kLarge, kLarge};
  bool asked_by_kernel_ = false;  // how the last one came
  // Matched less sent. Those of the two ranks together are never more than 0.
  std::int64_t owed_ = 0;
  bool by_kernel_ = false;        // how the last one went
  std::size_t kind_ = 0;          // its size
  std::uint64_t begun_ns_ = 0;    // when it began; 0: nothing is measured
};

}  // namespace tutti::p2p
