// Times of several machines on one clock.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/report/profile.hpp"

namespace tutti::report {

/// What another clock has shown at one moment of rank 0's.
struct ClockPoint {
  std::uint64_t clock = 0;  // as in tutti_origin
  std::uint64_t there_ns = 0, here_ns = 0;
};

/// Gives the arrivals of a profile times of rank 0's clock: by one point of its clock, or by a line
/// through the first and the last of several, since clocks drift. Without any they stay as they
/// are.
void align(const std::vector<ClockPoint>& points, RankProfile* profile);

}  // namespace tutti::report
