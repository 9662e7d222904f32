// Large messages that leave while others come in, from one node: who copies them.
//
// Through shared memory a rank copies what it sends and what it receives. In the kernel it copies
// what it receives, once, but nobody helps it. Which takes less time depends on the processors, on
// where they are, and on whether the program has rewritten what it sends. So both are tried, for
// each peer and size. What is measured is an episode of the rank: the time from the first such send
// until none of these is under way any more. Where that cannot be measured it is the kernel, as
// with other MPIs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "p2p/two_ways.hpp"

namespace tutti::p2p {

/// The times at which a rank sends large messages while it receives such. Under the engine's guard.
class Episodes {
 public:
  static constexpr std::size_t kLeast = std::size_t{16} << 10;
  static constexpr bool suits(std::size_t bytes) noexcept { return bytes >= kLeast; }

  /// A receive of a suitable size is posted, or a send begins while one is. Each has one end().
  void begin_receive() noexcept { ++receives_; }
  void begin_send(std::uint64_t now_ns) noexcept {
    const bool idle = sends_++ == 0;
    if (open_ && ++begun_ < kMost) return;
    if (open_ && !idle) return;
    // Where a receive is always open, one that has lasted long enough is given up.
    given_up_ = open_;
    if (given_up_) took_ns_ = 0;
    open_ = true;
    begun_ = 1;
    ++number_;
    begun_ns_ = now_ns;
  }
  /// True when nothing large is under way any more: end_all().
  bool end(bool receive) noexcept {
    --(receive ? receives_ : sends_);
    return open_ && receives_ + sends_ == 0;
  }
  void end_all(std::uint64_t now_ns) noexcept {
    open_ = false;
    took_ns_ = std::max<std::uint64_t>(now_ns - begun_ns_, 1);
  }

  bool receiving() const noexcept { return receives_ != 0; }
  /// The last one had no end, and the next one may have none.
  bool given_up() const noexcept { return given_up_; }
  /// Of the one that has begun last.
  std::uint64_t number() const noexcept { return number_; }
  /// Of that and the one before: what the latter took. 0: nothing is known of it.
  std::uint64_t took_ns(std::uint64_t number) const noexcept {
    return number + 1 == number_ ? took_ns_ : 0;
  }

 private:
  static constexpr std::size_t kMost = 512;  // sends in an episode: twice a large window

  std::size_t receives_ = 0, sends_ = 0, begun_ = 0;
  bool open_ = false, given_up_ = false;
  std::uint64_t number_ = 0, begun_ns_ = 0, took_ns_ = 0;
};

/// Of one peer; under the engine's guard.
class Crossings {
 public:
  /// A send begins, in this episode. True: by the kernel. `first`: of the two ranks this is the one
  /// that tries. The other one does as it was asked last, if it was lately: in an exchange both
  /// must go the same way.
  bool send(std::size_t bytes, bool first, const Episodes& episodes) noexcept {
    const std::uint64_t now = episodes.number();
    if (std::exchange(episode_, now) == now) return by_kernel_;
    const std::uint64_t took = measures_ ? episodes.took_ns(now - 1) : 0;
    if (took != 0 && measured_ + 1 == now)
      kinds_[kind_].note(!by_kernel_, static_cast<float>(took));
    measures_ = false;
    used_ = true;
    if (episodes.given_up()) return by_kernel_ = true;
    if (!first && asked_ != 0 && now - asked_ < kLately) return by_kernel_ = asked_by_kernel_;
    kind_ = kind_of(bytes);
    by_kernel_ = !kinds_[kind_].choose();
    measures_ = kinds_[kind_].counts();
    measured_ = now;
    return by_kernel_;
  }
  /// A message of suitable size has come, so.
  void receive(bool by_kernel, const Episodes& episodes) noexcept {
    asked_by_kernel_ = by_kernel;
    used_ = used_ || by_kernel;
    asked_ = episodes.number();
  }
  /// Messages have crossed: one that comes may have a sender that waits.
  bool used() const noexcept { return used_; }

 private:
  static constexpr std::uint64_t kLately = 3;
  /// To 32 KiB; to 128 KiB; four times as much each; the rest.
  static constexpr std::size_t kKinds = 6;
  static constexpr int kLeastWidth = std::bit_width(Episodes::kLeast - 1) / 2;
  static constexpr std::size_t kind_of(std::size_t bytes) noexcept {
    return std::min(static_cast<std::size_t>(std::bit_width(bytes - 1) / 2 - kLeastWidth),
                    kKinds - 1);
  }
  // The kernel, or through shared memory.
  static constexpr TwoWays kSmall{16, 4, 0.95F, 0.95F}, kLarge{4, 2, 0.95F, 0.95F};
  std::array<TwoWays, kKinds> kinds_{kSmall, kSmall, kSmall, kLarge, kLarge, kLarge};
  bool used_ = false;
  bool asked_by_kernel_ = false;  // how its last one came
  std::uint64_t asked_ = 0;       // in this episode
  bool by_kernel_ = true;         // how those of the last episode went
  std::uint64_t episode_ = 0;     // its number
  bool measures_ = false;         // whether it matters what it takes
  std::uint64_t measured_ = 0;
  std::size_t kind_ = 0;
};

}  // namespace tutti::p2p
