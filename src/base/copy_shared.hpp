// Copying into memory that another core will read.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/copy.hpp"

namespace tutti {

/// As copy_bytes, asking for the ownership of the destination's cache lines a kilobyte ahead: they
/// were last read by another core, and stores that each wait for a line run at a third of the speed
/// (docs/decisions/0003-blocks.md has the measurements).
inline void copy_to_shared(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t kAhead = 1024, kLine = 64;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  std::size_t requested = 0;
  for (std::size_t done = 0; done < bytes; done += kAhead) {
    const std::size_t wanted = std::min(bytes, done + 2 * kAhead);
    for (; requested < wanted; requested += kLine) __builtin_prefetch(target + requested, 1, 3);
    copy_bytes(target + done, source + done, std::min(kAhead, bytes - done));
  }
}

}  // namespace tutti
