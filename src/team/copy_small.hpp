// memcpy for a few bytes: a call costs more than the copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/copy.hpp"

namespace tutti {

/// Copies `bytes` between blocks that do not overlap; up to 16 of them without a call.
inline void copy_small(void* destination, const void* source, std::size_t bytes) noexcept {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  if (bytes > 16) {
    copy_bytes(to, from, bytes);
  } else if (bytes >= 8) {
    std::uint64_t head, tail;  // overlap unless there are 16
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + bytes - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + bytes - 8, &tail, 8);
  } else if (bytes >= 4) {
    std::uint32_t head, tail;
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + bytes - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + bytes - 4, &tail, 4);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

}  // namespace tutti
