#include "mpi/plugin/clocks.hpp"

#include <algorithm>
#include <cstdint>

#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr int kTag = 1, kTries = 20;

std::uint64_t exact_time() noexcept { return tutti_clock(CLOCK_MONOTONIC); }

/// The number of each rank's clock, on all of them.
std::vector<std::uint64_t> all_clocks() {
  const std::uint64_t mine = state.record->origin.clock;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(state.size));
  native.Gather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, 0,
                state.report_comm);
  native.Bcast(all.data(), static_cast<int>(all.size() * sizeof mine), MPI_BYTE, 0,
               state.report_comm);
  return all;
}

void answer() {
  char question = 0;
  for (int i = 0; i < kTries; ++i) {
    native.Recv(&question, 1, MPI_BYTE, 0, kTag, state.report_comm, MPI_STATUS_IGNORE);
    const std::uint64_t time = exact_time();
    native.Send(&time, sizeof time, MPI_BYTE, 0, kTag, state.report_comm);
  }
}

report::ClockPoint ask(int rank, std::uint64_t clock) {
  report::ClockPoint point;
  std::uint64_t quickest = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const char question = 0;
    std::uint64_t there = 0;
    const std::uint64_t before = exact_time();
    native.Send(&question, 1, MPI_BYTE, rank, kTag, state.report_comm);
    native.Recv(&there, sizeof there, MPI_BYTE, rank, kTag, state.report_comm, MPI_STATUS_IGNORE);
    const std::uint64_t took = exact_time() - before;
    if (took >= quickest) continue;
    quickest = took;
    point = {clock, there, before + took / 2};
  }
  return point;
}

}  // namespace

std::vector<report::ClockPoint> measure_clocks() {
  std::vector<report::ClockPoint> points;
  const std::vector<std::uint64_t> clocks = all_clocks();
  std::vector<std::uint64_t> seen{clocks[0]};
  for (int rank = 1; rank < state.size; ++rank) {
    const std::uint64_t clock = clocks[static_cast<std::size_t>(rank)];
    if (std::ranges::find(seen, clock) != seen.end()) continue;
    seen.push_back(clock);
    if (state.rank == 0) points.push_back(ask(rank, clock));
    if (state.rank == rank) answer();
  }
  return points;
}

}  // namespace tutti::mpi
