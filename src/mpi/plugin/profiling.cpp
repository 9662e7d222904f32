#include "mpi/plugin/profiling.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/log.hpp"
#include "mpi/plugin/call_site.hpp"
#include "mpi/plugin/clocks.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/events.hpp"

namespace tutti::mpi {
namespace {

// Arrivals that rank 0 gets in all (84 MB), and that one rank keeps of these.
constexpr std::size_t kRoom = std::size_t{1} << 21, kMost = std::size_t{1} << 15, kLeast = 256;
constexpr int kTag = 2;

/// Made by begin_profile(), and there to the end; its parts guarded by `mutex`.
struct Profiling {
  std::mutex mutex;
  report::Profile profile{std::clamp(kRoom / static_cast<std::size_t>(state.size), kLeast, kMost)};
  std::uint64_t next[TUTTI_RECORD_LANES];  // the number, as tutti_lane::count has it, that is next
  bool over = false;                       // the profile has gone to rank 0
  std::vector<report::ClockPoint> clocks;
};
std::unique_ptr<Profiling> profiling;

void count_lane(tutti_record& record, int index) {
  const tutti_lane& lane = record.lanes[index];
  if (lane.events == 0) return;
  const std::uint64_t places = std::uint64_t{lane.mask} + 1;
  const std::uint64_t end = __atomic_load_n(&lane.count, __ATOMIC_ACQUIRE) | 1;  // not ended yet
  std::uint64_t& next = profiling->next[index];
  if (end - next > 2 * places) {
    profiling->profile.add_missed((end - next) / 2 - places);
    next = end - 2 * places;
  }
  for (; next != end; next += 2) {
    tutti_event event;
    roll::copy_event(lane, static_cast<std::uint32_t>(next / 2 % places), &event);
    if (event.count == next)
      profiling->profile.add(record, event);
    else
      profiling->profile.add_missed(1);
  }
}

void count_lanes(int first, int last) noexcept {
  if (!profiling) return;
  const std::lock_guard lock(profiling->mutex);
  if (profiling->over) return;
  try {
    for (int index = first; index < last; ++index) count_lane(*state.record, index);
  } catch (const std::bad_alloc&) {  // then these are missing
  }
}

void describe_sites(report::RankProfile* profile) {
  for (report::Site& site : profile->sites)
    site.text = describe_site(reinterpret_cast<const void*>(site.key.site));
}

/// What is called from now on is not counted.
report::RankProfile take_profile() {
  const std::lock_guard lock(profiling->mutex);
  profiling->over = true;
  return std::move(profiling->profile.profile());
}

void send_profile(const std::string& bytes) {
  const auto size = static_cast<std::uint64_t>(bytes.size());
  native.Send(&size, sizeof size, MPI_BYTE, 0, kTag, state.report_comm);
  native.Send(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, kTag, state.report_comm);
}

bool receive_profile(int rank, report::RankProfile* out) {
  std::uint64_t size = 0;
  native.Recv(&size, sizeof size, MPI_BYTE, rank, kTag, state.report_comm, MPI_STATUS_IGNORE);
  std::string bytes(size, '\0');
  native.Recv(bytes.data(), static_cast<int>(size), MPI_BYTE, rank, kTag, state.report_comm,
              MPI_STATUS_IGNORE);
  return report::unpack(bytes.data(), bytes.size(), out) && out->rank == rank;
}

}  // namespace

void begin_profile() {
  if (!state.job) return;
  profiling = std::make_unique<Profiling>();
  for (std::uint64_t& next : profiling->next) next = 1;
  profiling->clocks = measure_clocks();
}

void count_calls(tutti_lane* lane) noexcept {
  const auto index = lane - state.record->lanes;
  if (index >= 0 && index < TUTTI_RECORD_LANES)
    count_lanes(static_cast<int>(index), static_cast<int>(index) + 1);
}

void count_all_calls() noexcept { count_lanes(0, TUTTI_RECORD_LANES); }

std::vector<report::RankProfile> gather_profiles() {
  std::vector<report::RankProfile> all;
  if (!profiling) return all;
  count_all_calls();
  for (const report::ClockPoint& point : measure_clocks()) profiling->clocks.push_back(point);
  report::RankProfile mine = take_profile();
  mine.rank = state.rank;
  mine.clock = state.record->origin.clock;
  describe_sites(&mine);
  if (state.rank != 0) {
    send_profile(report::packed(mine));
  } else {
    all.resize(static_cast<std::size_t>(state.size));
    all[0] = std::move(mine);
    for (int rank = 1; rank < state.size; ++rank) {
      report::RankProfile& one = all[static_cast<std::size_t>(rank)];
      if (!receive_profile(rank, &one)) log(LogLevel::error, "rank %d has sent no profile", rank);
      one.rank = rank;
      report::align(profiling->clocks, &one);
    }
  }
  return all;
}

}  // namespace tutti::mpi
