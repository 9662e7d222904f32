// When a sleeper of a rank that computes should look at the network again, while data come in
// parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tutti::nodes {

/// Sockets wake a sleeper for every few packets of a large transfer, though there is nothing for it
/// to do but to copy them, and the kernel keeps them meanwhile: so it looks less and less often,
/// always after another quarter of the time that it has been woken in vain, counted from the last
/// time. As long as the kernel's buffers take what comes, the end is found late by that much at
/// most, and by kLongest. Times in nanoseconds. One thread at a time is woken(); moved() and
/// pause() are for any.
class Parts {
 public:
  /// The network has woken a sleeper at `now`.
  void woken(std::uint64_t now) noexcept {
    const std::uint64_t last = last_.exchange(now, std::memory_order_relaxed);
    if (since_.load(std::memory_order_relaxed) == 0 || now - last > kApart)
      since_.store(now, std::memory_order_relaxed);
  }
  /// Something is complete: that was not in vain.
  void moved() noexcept {
    if (since_.load(std::memory_order_relaxed) != 0) since_.store(0, std::memory_order_relaxed);
  }
  /// How long to leave the network alone; 0: not at all.
  std::uint64_t pause(std::uint64_t now) const noexcept {
    const std::uint64_t since = since_.load(std::memory_order_relaxed);
    const std::uint64_t last = last_.load(std::memory_order_relaxed);
    if (since == 0 || last <= since) return 0;
    const std::uint64_t part = std::min((last - since) / 4, kLongest), end = last + part;
    return part < kShortest || now >= end ? 0 : end - now;
  }

 private:
  static constexpr std::uint64_t kShortest = 50'000;   // shorter sleeps cost more than they save
  static constexpr std::uint64_t kLongest = 500'000;   // 600 KiB at 10 Gbit/s: buffers hold that
  static constexpr std::uint64_t kApart = 10'000'000;  // what is that far apart is not one transfer

  std::atomic<std::uint64_t> since_{0};  // of the first in vain; 0: the last was not
  std::atomic<std::uint64_t> last_{0};
};

}  // namespace tutti::nodes
