// A number for bytes, the same in every process: FNV-1a of 64 bits (Fowler, Noll, Vo). To tell
// apart what nobody forges; against a forger there are keys (fabric/secret).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

inline constexpr std::uint64_t kHashOfNothing = 0xcbf29ce484222325u;

/// Of `bytes` bytes; `hash`: of what was before them.
inline std::uint64_t hash_of(const void* data, std::size_t bytes,
                             std::uint64_t hash = kHashOfNothing) noexcept {
  const auto* const byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}
inline std::uint64_t hash_of(std::string_view text) noexcept {
  return hash_of(text.data(), text.size());
}

}  // namespace tutti
