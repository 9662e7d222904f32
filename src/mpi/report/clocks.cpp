#include "mpi/report/clocks.hpp"

#include <algorithm>

namespace tutti::report {
namespace {

/// Clocks may be ahead or behind: differences are signed.
double difference(std::uint64_t later, std::uint64_t earlier) noexcept {
  return static_cast<double>(static_cast<std::int64_t>(later - earlier));
}

}  // namespace

void align(const std::vector<ClockPoint>& points, RankProfile* profile) {
  const auto its_own = [profile](const ClockPoint& point) { return point.clock == profile->clock; };
  const auto first = std::ranges::find_if(points, its_own);
  if (first == points.end()) return;
  const auto last = std::find_if(points.rbegin(), points.rend(), its_own);
  const double there = difference(last->there_ns, first->there_ns);
  const double pace = there > 0 ? difference(last->here_ns, first->here_ns) / there : 1;
  const auto here = [first, pace](std::uint64_t ns) {
    const double since = difference(ns, first->there_ns) * pace;
    return first->here_ns + static_cast<std::uint64_t>(static_cast<std::int64_t>(since));
  };
  for (KindArrivals& kind : profile->kinds) {
    for (Arrival& arrival : kind.kept) {
      arrival.begin = here(arrival.begin);
      arrival.end = here(arrival.end);
    }
  }
}

}  // namespace tutti::report
