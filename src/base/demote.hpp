// Lines that one core has written and another one waits for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Hands the cache lines of [begin, end) from this core's own cache to the one that all cores of
/// the package share, from where another core gets them sooner (CLDEMOTE). Only a hint, and costs
/// this core what it does next with them; a processor without it does nothing (can_demote()).
/// Thread-safe.
inline void demote(const std::byte* begin, const std::byte* end) noexcept {
#if defined(__x86_64__)
  constexpr std::size_t kLine = 64;
  begin -= reinterpret_cast<std::uintptr_t>(begin) % kLine;
  for (; begin < end; begin += kLine) asm volatile("cldemote %0" : : "m"(*begin) : "memory");
#else
  static_cast<void>(begin), static_cast<void>(end);
#endif
}

}  // namespace tutti
