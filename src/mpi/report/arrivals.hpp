// Waiting for late ranks told apart from transfer, by comparing when the members of a communicator
// came to the same collective.
//
// A member waits until the last of those has come whose data it needs by the meaning of the
// operation: all of them in a barrier or an allreduce, the root in a broadcast, the lower ranks in
// a scan. An algorithm may make it wait for others, too: a child in a tree that is late, or a leaf
// that the root of a large broadcast cannot serve yet. That member is known: the one that the call
// has waited for longest. What is left of the call is transfer.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/report/profile.hpp"

namespace tutti::report {

/// Of the calls of one rank from one place.
struct SiteWaits {
  std::uint64_t compared = 0;  // calls that all members have kept
  double ns = 0;               // in these
  double waiting_ns = 0;       // of that
};

/// How one rank comes to collectives.
struct RankArrivals {
  std::uint64_t compared = 0;  // collectives
  std::uint64_t last = 0;      // of them: it was the last to come
  double behind_ns = 0;        // behind the first, in all of them
  double caused_ns = 0;        // of all others' waiting, also in calls that were not compared
};

/// Rows of ranks, columns of equal parts of the time from the first arrival to the last.
struct TimeLine {
  std::uint64_t begin = 0, end = 0;
  int columns = 0;
  std::vector<float> behind_ns;  // mean, row by row; < 0: there was none
};

struct Arrivals {
  std::uint64_t compared = 0;                 // collectives
  std::vector<std::vector<SiteWaits>> sites;  // of each rank's, in the order of its profile
  std::vector<RankArrivals> ranks;
  TimeLine line;
};

/// `profiles`: of the ranks 0, 1, ..., with the times of one clock.
Arrivals compare_arrivals(const std::vector<RankProfile>& profiles);

}  // namespace tutti::report
