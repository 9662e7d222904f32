// Copying into memory that another core will read.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/copy.hpp"

namespace tutti {

/// Asks for a cache line in order to write it. Where a compiler that builds for any x86-64 must not
/// use PREFETCHW (a hint that processors without it ignore), it would ask for a copy only.
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

/// As copy_bytes, asking for the ownership of the destination's cache lines 8 KiB ahead: they
/// were last read by another core, and stores that each wait for a line run at a third of the speed
/// (docs/decisions/0003-blocks.md has the measurements).
inline void copy_to_shared(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t kAhead = 8192, kLine = 64;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  std::size_t requested = 0;
  for (std::size_t done = 0; done < bytes; done += kAhead) {
    const std::size_t wanted = std::min(bytes, done + 2 * kAhead);
    for (; requested < wanted; requested += kLine) prefetch_to_write(target + requested);
    copy_bytes(target + done, source + done, std::min(kAhead, bytes - done));
  }
}

}  // namespace tutti
