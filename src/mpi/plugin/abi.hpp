// The ABI that this plugin is built for (src/mpi/abi), and handles of whatever kind it has.
#pragma once

#include <cstdint>
#include <type_traits>

#include TUTTI_ABI_HEADER

namespace tutti::mpi {

/// A handle as a key for hash tables.
inline std::uintptr_t key(int handle) noexcept { return static_cast<unsigned>(handle); }
inline std::uintptr_t key(const void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// The handle of a key, also of another handle's: those of requests and messages are exchanged.
template <class Handle>
Handle handle_from(std::uintptr_t key) noexcept {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(key);
  } else {
    return static_cast<Handle>(key);
  }
}

}  // namespace tutti::mpi
