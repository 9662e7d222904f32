// Where a rank runs within its node.
#pragma once

#include <compare>
#include <cstdint>

namespace tutti {

/// The parts of a machine that hold all the processors that a rank may use, by the system's
/// numbers, which mean the same to all processes of the machine. -1: it may use several parts, or
/// nobody says which. Plain bytes: ranks tell each other.
struct Locality {
  std::int16_t package = -1;
  std::int16_t numa = -1;   // NUMA domain
  std::int16_t cache = -1;  // last-level cache: the lowest number of a processor that shares it
  auto operator<=>(const Locality&) const noexcept = default;
};

}  // namespace tutti
