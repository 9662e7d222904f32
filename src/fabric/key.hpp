// The check that keys carry: a key that was cut off, overwritten or made up is refused by attach()
// instead of turning into an access to somebody else's memory.
#pragma once

#include <cstdint>

#include "fabric/fabric.hpp"

namespace tutti {

/// 32 bits over words 1 to 3 and `kind`. Guards against accidents, not against attackers: the ranks
/// of a job may write each other's memory anyway, and strangers do not get as far (a network's own
/// key of a region, docs/security.md).
inline std::uint64_t key_check(std::uint32_t kind, const Key& key) noexcept {
  std::uint64_t hash = kind;
  for (int i = 1; i < 4; ++i) {
    hash = (hash ^ key.words[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return (hash * 0xbf58476d1ce4e5b9) >> 32;
}

/// A key of `kind` (of the implementation) with three words of its own and the check.
inline Key seal_key(std::uint32_t kind, std::uint64_t a, std::uint64_t b,
                    std::uint64_t c) noexcept {
  Key key{{0, a, b, c}};
  key.words[0] = key_check(kind, key) << 32 | kind;
  return key;
}

/// The kind of a key, or 0 when its check does not fit.
inline std::uint32_t key_kind(const Key& key) noexcept {
  const auto kind = static_cast<std::uint32_t>(key.words[0]);
  return key.words[0] >> 32 == key_check(kind, key) ? kind : 0;
}

}  // namespace tutti
