// The cheapest clock there is, for short times that are compared with each other.
#pragma once

#include <cstdint>

#if !defined(__x86_64__)
#include <chrono>
#endif

namespace tutti {

/// In no particular unit. May differ between processors.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

}  // namespace tutti
