// Copying large blocks. glibc's memcpy uses `rep movsb` from 2 KiB on, which on Zen 3 copies at 2
// to 3 GB/s instead of 50 to 100 where the destination lies a little further into its page
// than the source: just what a page-aligned shared block and a malloc'ed buffer do
// (docs/decisions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

/// Up to here memcpy is at its best.
inline constexpr std::size_t kSmallCopy = 2048;

/// As copy_bytes, for more than kSmallCopy bytes.
void copy_large(void* to, const void* from, std::size_t bytes) noexcept;

/// As copy_large, with stores that go past the caches; complete, in the order of other stores, when
/// it returns. For data that a core with a cache of its own will read.
void copy_streaming(void* to, const void* from, std::size_t bytes) noexcept;

/// As copy_large, by the processor's own string copy, which owns a line without fetching it.
/// Only where has_string_copy().
void copy_string(void* to, const void* from, std::size_t bytes) noexcept;
/// Whether the processor says that its string copies are fast (ERMS of x86).
bool has_string_copy() noexcept;
/// Whether this one is. On Zen 3 a destination a little further into its page than the source makes
/// it ten times as slow.
inline bool copies_strings_well(const void* to, const void* from) noexcept {
  constexpr std::uintptr_t kPage = 4096, kLine = 64;
  const std::uintptr_t skew =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  return skew == 0 || skew >= kLine;
}

/// memcpy: the blocks must not overlap, and may lie anywhere. In no particular order: what must be
/// visible last has to be stored afterwards. Thread-safe.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > kSmallCopy) return copy_large(to, from, bytes);
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace tutti
