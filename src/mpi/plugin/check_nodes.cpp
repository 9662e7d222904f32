#include "mpi/plugin/check_nodes.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/plugin/check_calls.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {
namespace {

constexpr Status kNoMemory = Status::error(Code::no_memory, "no memory to compare calls");

/// What one member passes, as it travels. An address says nothing on another machine, so the place
/// in the program is a text.
struct Passing {
  std::uint64_t number = 0, bytes = 0, what = 0;  // as in tutti_past
  std::int32_t rank = 0;                          // of the world
  char site[100] = "";
};

/// Where it was called. Looking it up reads a file, and programs call from few places.
std::string site_text(std::uint64_t site) {
  static std::mutex mutex;
  static std::unordered_map<std::uint64_t, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(site);
  if (is_new) place->second = roll::module_site(getpid(), site);
  return place->second;
}

Passing passing_of(const tutti_past& mine) {
  Passing own{mine.number, mine.bytes, mine.what, state.rank};
  std::snprintf(own.site, sizeof own.site, "%s", site_text(mine.site).c_str());
  return own;
}

Caller caller_of(const Passing& passing, bool nonblocking) {
  Caller caller{passing.rank, roll::passed_of(passing.bytes, passing.what, nonblocking),
                passing.site};
  caller.passed.number = passing.number;
  return caller;
}

/// All members have the same before them: the first one tells.
void tell(const Comm& comm, const std::vector<Passing>& all, bool nonblocking) {
  if (comm.rank != 0) return;
  const Caller first = caller_of(all.front(), nonblocking);
  for (const Passing& passing : all) {
    const Caller other = caller_of(passing, nonblocking);
    const std::string what = roll::difference(first.passed, other.passed);
    if (what.empty()) continue;
    if (is_first_to_tell(comm)) tell_difference(comm, what, first, other);
    return;
  }
}

Call gathering(const Passing& own, std::vector<Passing>* all) noexcept {
  Call call;
  call.coll = Coll::allgather;
  call.send = &own;
  call.recv = all->data();
  call.bytes = sizeof own;
  return call;
}

/// Of a non-blocking collective.
struct Comparison {
  Comm* comm;
  Passing own;
  std::vector<Passing> all;
  Operation* operation = nullptr;
};

std::mutex mutex;
std::vector<std::unique_ptr<Comparison>> under_way;  // guarded by mutex

/// Or nullptr.
std::unique_ptr<Comparison> take_one_that_is_over() noexcept {
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(
      under_way, [](const auto& comparison) { return !active(*comparison->operation); });
  if (found == under_way.end()) return nullptr;
  std::unique_ptr<Comparison> over = std::move(*found);
  under_way.erase(found);
  comparisons_under_way.store(under_way.size(), std::memory_order_relaxed);
  return over;
}

void conclude(const Comparison& comparison, const Status& outcome) noexcept try {
  if (outcome.ok()) tell(*comparison.comm, comparison.all, true);
} catch (const std::bad_alloc&) {  // the program goes on
}

}  // namespace

std::atomic<std::size_t> comparisons_under_way{0};

void compare_blocking(const Comm& comm, const tutti_past& mine) noexcept {
  std::vector<Passing> all;
  Passing own;
  try {
    all.resize(static_cast<std::size_t>(comm.size));
    own = passing_of(mine);
  } catch (const std::bad_alloc&) {
    static_cast<void>(state.job->fail(*comm.team, kNoMemory).ok());
    return;  // the collective itself tells of it, on all members
  }
  const double begin = now();
  Status status = state.job->run(*comm.team, gathering(own, &all));
  const bool left = status.code == Code::left_to_host;
  const int code = left ? native.Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own,
                                           MPI_BYTE, comm.handle)
                        : MPI_SUCCESS;
  if (state.job->awaits_time(*comm.team)) status = state.job->took(*comm.team, ns_since(begin));
  if (code != MPI_SUCCESS || !(status.ok() || left)) return;  // as above
  try {
    tell(comm, all, false);
  } catch (const std::bad_alloc&) {  // the program goes on
  }
}

void begin_comparison(Comm& comm, const tutti_past& mine) noexcept {
  std::unique_ptr<Comparison> comparison;
  try {
    comparison = std::make_unique<Comparison>();
    comparison->all.resize(static_cast<std::size_t>(comm.size));
    comparison->own = passing_of(mine);
    const std::lock_guard lock(mutex);
    under_way.reserve(under_way.size() + 1);
  } catch (const std::bad_alloc&) {
    static_cast<void>(state.job->fail(*comm.nonblocking, kNoMemory).ok());
    return;
  }
  const Status status = state.job->start(
      *comm.nonblocking, gathering(comparison->own, &comparison->all), &comparison->operation);
  if (!status.ok()) return;  // the MPI's, on all members; or it fails as the call itself does
  retain(&comm);
  comparison->comm = &comm;
  const std::lock_guard lock(mutex);
  under_way.push_back(std::move(comparison));
  comparisons_under_way.store(under_way.size(), std::memory_order_relaxed);
}

bool being_compared(const Comm& comm, std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(under_way, [&](const auto& comparison) {
    return comparison->comm == &comm && comparison->own.number == number;
  });
}

void look_at_comparisons() noexcept {
  for (std::unique_ptr<Comparison> over; (over = take_one_that_is_over()) != nullptr;) {
    Status outcome;
    state.job->test(*over->operation, &outcome);
    conclude(*over, outcome);
    state.job->release(over->operation);
    release(over->comm);
  }
}

void end_comparisons() noexcept {
  for (std::uint32_t round = 0; comparing(); ++round) {
    state.job->progress();
    look_at_comparisons();
    if (comparing()) state.job->relax(round);
  }
}

}  // namespace tutti::mpi
