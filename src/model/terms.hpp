// A network's terms in microseconds, as the models use them. Internal to src/model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/sim/network.hpp"

namespace tutti::model {

inline double us(sim::Time time) noexcept { return static_cast<double>(time) / sim::kMicrosecond; }

/// ceil(log2 n).
inline int stages(int n) noexcept {
  int count = 0;
  for (std::int64_t reach = 1; reach < n; reach *= 2) ++count;
  return count;
}

/// What the sender's processor spends on one operation: Tm + Td.
inline double posting(const sim::Network& n) noexcept { return us(n.Tm + n.Td); }

/// One put from the NIC's taking it up to being visible, without what is transmitted:
/// 2 (Ts + Tn) + Tl.
inline double passage(const sim::Network& n) noexcept { return us(2 * (n.Ts + n.Tn) + n.Tl); }

/// Transmission of `bytes`.
inline double wire(const sim::Network& n, std::size_t bytes) noexcept {
  return static_cast<double>(bytes) * n.Tt.microseconds();
}

/// Transmission of `bytes` and the counter behind them.
inline double wire_counted(const sim::Network& n, std::size_t bytes) noexcept {
  return wire(n, bytes + n.counter_bytes);
}

inline double copy(const sim::Network& n, std::size_t bytes) noexcept {
  return static_cast<double>(bytes) * n.Tc.microseconds();
}

/// Copying into registered memory what leaves from memory that is not; large puts do without.
inline double registered_copy(const sim::Network& n, std::size_t bytes) noexcept {
  return bytes <= n.copied_bytes ? copy(n, bytes) : 0;
}

}  // namespace tutti::model
