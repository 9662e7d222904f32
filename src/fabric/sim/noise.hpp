// Noise of the operating system and skew of the processes, by seed.
//
// Every rank's processor is taken away for `duration` once in every `period`, from a phase on that
// differs by rank: work takes longer by what falls into it, and a message that arrives meanwhile is
// seen afterwards. Pure functions of (seed, rank, time), so a run is repeated by its seed.
#pragma once

#include <cstdint>

#include "fabric/sim/network.hpp"

namespace tutti::sim {

struct Noise {
  Time period = 0;    // 0: none
  Time duration = 0;  // of each detour; below `period`
  Time skew = 0;      // ranks come to the first collective up to so much later, evenly distributed
  std::uint64_t seed = 1;

  bool any() const noexcept { return period != 0 && duration != 0; }
};

/// A well mixed number for each (seed, stream).
inline std::uint64_t mix(std::uint64_t seed, std::uint64_t stream) noexcept {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + (stream + 1) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// When `work` that the rank begins at `begin` is done. work == 0: when the rank has its processor
/// next.
inline Time end_of_work(const Noise& n, int rank, Time begin, Time work) noexcept {
  const Time phase = mix(n.seed, static_cast<std::uint64_t>(rank)) % n.period;
  Time in_period =
      (begin + n.period - phase) % n.period;  // detours fill [0, duration) of each period
  if (in_period < n.duration) {
    begin += n.duration - in_period;
    in_period = n.duration;
  }
  const Time before_next = n.period - in_period;
  if (work <= before_next) return begin + work;
  const Time rest = work - before_next;
  const Time usable = n.period - n.duration;
  const Time whole = (rest - 1) / usable;  // full periods before the last
  return begin + before_next + whole * n.period + n.duration + (rest - whole * usable);
}

/// How much later the rank comes.
inline Time skew_of(const Noise& n, int rank) noexcept {
  return n.skew == 0 ? 0
                     : mix(n.seed ^ 0x736b6577, static_cast<std::uint64_t>(rank)) % (n.skew + 1);
}

}  // namespace tutti::sim
