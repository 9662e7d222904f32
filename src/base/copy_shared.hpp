// Copying into memory that another core will read.
#pragma once

#include <cstddef>

#include "base/store_choice.hpp"

namespace tutti {

/// As copy_bytes, with the stores that are the better ones for the cores at hand
/// (store_choice.hpp). Thread-safe; the copy is ordered before later release stores, as any copy
/// is.
void copy_to_shared(void* to, const void* from, std::size_t bytes) noexcept;
/// With stores that somebody has chosen who knows more.
void copy_to_shared(void* to, const void* from, std::size_t bytes, Stores stores) noexcept;

/// Asks for a cache line in order to write it. Where a compiler that builds for any x86-64 must not
/// use PREFETCHW (a hint that processors without it ignore), it would ask for a copy only.
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

/// Asks for a copy of a cache line. GCC takes a function that does nothing else for one without
/// effects, and drops the calls; not one with an asm.
inline void prefetch_to_read(const void* line) noexcept {
  __builtin_prefetch(line);
  asm volatile("" : : "r"(line));
}

}  // namespace tutti
