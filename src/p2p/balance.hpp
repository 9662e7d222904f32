// Whether a peer waits for what is written to it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::p2p {

/// Whether about as much comes from a peer as goes to it. Then both wait for what the other one
/// writes, and each line is wanted at once; where all goes one way the reader is behind, and the
/// writer's time counts. Of one peer, for packets; under the engine's guard.
class Balance {
 public:
  /// Largest packet for which it matters.
  static constexpr std::size_t kMost = 2048;

  /// Before another packet is written: so many have been written and taken by now.
  bool even(std::uint64_t sent, std::uint64_t received) noexcept {
    if (sent - sent_ >= kPackets) {
      even_ = 2 * (received - received_) >= sent - sent_;
      sent_ = sent;
      received_ = received;
    }
    return even_;
  }

 private:
  static constexpr std::uint64_t kPackets = 128;  // a large window: all goes one way, then back

  std::uint64_t sent_ = 0, received_ = 0;
  bool even_ = true;  // as long as nothing is known
};

}  // namespace tutti::p2p
