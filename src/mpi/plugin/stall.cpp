#include "mpi/plugin/stall.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/recorder.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {
namespace {

constexpr double kLooksPerStall = 4;  // a stall is noticed a quarter of its time late at most
// Seconds between two looks: a stall may be set as short as one likes, and nobody polls for it.
constexpr double kShortestPause = 0.01, kLongestPause = 10;

std::uint64_t clock_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The lanes of all ranks, and since when each has been in the call that it is in.
class Watch {
 public:
  Watch(const Records& node, double stall_s) noexcept
      : node_(node), stall_ns_(static_cast<std::uint64_t>(stall_s * 1e9)), next_ns_(stall_ns_) {}
  bool start() noexcept;
  void stop() noexcept;

 private:
  /// What was seen of a lane, last and when it was first so.
  struct Seen {
    std::uint64_t count = 0, since_ns = 0;
  };

  static void* entry(void* self) noexcept;
  void run();
  bool pause();
  void look(std::uint64_t now);
  bool has_the_word() const;
  void report(std::uint64_t now, std::uint64_t longest) const;
  const tutti_record& record(int local) const noexcept { return record_of(node_, local); }

  const Records node_;
  const std::uint64_t stall_ns_;
  std::vector<Seen> seen_;   // by rank of the node and lane
  std::uint64_t next_ns_;    // how long a call must have lasted for the next report
  std::uint64_t stuck_ = 0;  // since when the oldest call of the last report has lasted
  pthread_t thread_{};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t stopped_{};
  bool stop_ = false;  // guarded by mutex_
};

bool Watch::start() noexcept {
  try {
    seen_.resize(static_cast<std::size_t>(node_.ranks) * TUTTI_RECORD_LANES);
  } catch (const std::bad_alloc&) {
    return false;
  }
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&stopped_, &monotonic);
  // Signals belong to the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &Watch::entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void Watch::stop() noexcept {
  pthread_mutex_lock(&mutex_);
  stop_ = true;
  pthread_cond_signal(&stopped_);
  pthread_mutex_unlock(&mutex_);
  pthread_join(thread_, nullptr);
}

void* Watch::entry(void* self) noexcept {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_setname_np(pthread_self(), "tutti-watch");
  try {
    static_cast<Watch*>(self)->run();
  } catch (const std::bad_alloc&) {
    log(LogLevel::warn, "no memory for the stall report");
  }
  return nullptr;
}

void Watch::run() {
  while (pause()) look(clock_ns());
}

/// Sleeps until the next look. False when there is to be none.
bool Watch::pause() {
  const double stall = static_cast<double>(stall_ns_) / 1e9;
  const double seconds = std::clamp(stall / kLooksPerStall, kShortestPause, kLongestPause);
  const std::uint64_t until = clock_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  const timespec deadline{static_cast<time_t>(until / 1'000'000'000),
                          static_cast<long>(until % 1'000'000'000)};
  pthread_mutex_lock(&mutex_);
  int code = 0;
  while (!stop_ && code != ETIMEDOUT) code = pthread_cond_timedwait(&stopped_, &mutex_, &deadline);
  const bool on = !stop_;
  pthread_mutex_unlock(&mutex_);
  return on;
}

/// Reads one word of each lane, and reports when a call has lasted long enough: after the set time,
/// then after twice that, and so on, as long as the same call is the oldest.
void Watch::look(std::uint64_t now) {
  std::uint64_t oldest = now;
  for (int local = 0; local < node_.ranks; ++local) {
    for (int i = 0; i < TUTTI_RECORD_LANES; ++i) {
      Seen& seen = seen_[static_cast<std::size_t>(local * TUTTI_RECORD_LANES + i)];
      const std::uint64_t count = __atomic_load_n(&record(local).lanes[i].count, __ATOMIC_RELAXED);
      if (count != seen.count) seen = {count, now};
      if ((count & 1) != 0 && !__atomic_load_n(&record(local).finalizing, __ATOMIC_RELAXED))
        oldest = std::min(oldest, seen.since_ns);
    }
  }
  if (oldest != stuck_) {
    stuck_ = oldest;
    next_ns_ = stall_ns_;
  }
  if (now - oldest < next_ns_ || !has_the_word()) return;
  report(now, now - oldest);
  next_ns_ = 2 * (now - oldest);
}

/// The first rank of the node has, until it leaves the job or ends.
bool Watch::has_the_word() const {
  if (node_.own == 0) return true;
  roll::RankSeen first;
  return !roll::read_record(record(0), &first) || first.finalizing || first.process == 'X';
}

void Watch::report(std::uint64_t now, std::uint64_t longest) const {
  std::vector<const tutti_record*> records;
  for (int local = 0; local < node_.ranks; ++local) records.push_back(&record(local));
  const std::vector<roll::RankSeen> ranks = roll::read_records(records);
  if (ranks.empty()) return;
  char head[200];
  std::snprintf(
      head, sizeof head,
      "tutti: a call has lasted for %.0f s; what the ranks%s are doing (TUTTI_STALL=0: do "
      "not say):\n",
      static_cast<double>(longest) / 1e9, node_.ranks < state.size ? " of this node" : "");
  const roll::Roll roll = roll::call_roll(ranks, roll::site_in_rank);
  const std::string text = head + roll::text_of(roll, state.size, now);
  // In one piece, so that no other output comes in between.
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  write_recorders();
}

Watch* watch = nullptr;  // written by the threads of MPI_Init and MPI_Finalize

}  // namespace

void begin_watch(const Records& node) {
  const bool watches = node.own == 0 || node.own == node.ranks - 1;
  if (!watches || state.settings.stall_s <= 0) return;
  auto* const made = new (std::nothrow) Watch(node, state.settings.stall_s);
  if (made != nullptr && made->start()) {
    watch = made;
    return;
  }
  delete made;
  log(LogLevel::warn, "cannot start the thread that reports stalls (TUTTI_STALL)");
}

void end_watch() noexcept {
  if (watch == nullptr) return;
  watch->stop();
  delete watch;
  watch = nullptr;
}

}  // namespace tutti::mpi
