#include "mpi/plugin/stall.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/recorder.hpp"
#include "mpi/plugin/roll_call.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/node_roll.hpp"

namespace tutti::mpi {
namespace {

constexpr double kLooksPerStall = 4;  // a stall is noticed a quarter of its time late at most
// Seconds between two looks: a stall may be set as short as one likes, and nobody polls for it.
constexpr double kShortestPause = 0.01, kLongestPause = 10;

// A node that has been told of a stall asks what the ranks are doing. One that is stopped does not.
constexpr std::uint64_t kAskedWithin = 3'000'000'000;

std::uint64_t clock_ns() noexcept { return tutti_clock(CLOCK_MONOTONIC); }

/// Who polls for the end of the watch, and for other nodes.
class Alarm {
 public:
  ~Alarm() {
    if (event_ >= 0) close(event_);
  }
  bool open() noexcept { return (event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0; }
  void ring() noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!write(event_, &one, sizeof one));
  }

  enum class Heard : std::uint8_t { nothing, other, end };
  /// Sleeps until then, unless it is rung, or there is input on `other` (-1: there is none).
  Heard sleep(std::uint64_t until_ns, int other) noexcept {
    for (;;) {
      const std::uint64_t now = clock_ns();
      if (now >= until_ns) return Heard::nothing;
      pollfd entries[] = {{event_, POLLIN, 0}, {other, POLLIN, 0}};
      const std::uint64_t left = until_ns - now;
      const timespec time{static_cast<time_t>(left / 1'000'000'000),
                          static_cast<long>(left % 1'000'000'000)};
      if (ppoll(entries, 2, &time, nullptr) <= 0) continue;
      return entries[0].revents != 0 ? Heard::end : Heard::other;
    }
  }

 private:
  int event_ = -1;
};

/// The lanes of all ranks of the node, and since when each has been in the call that it is in.
class Watch {
 public:
  Watch(const Records& node, double stall_s, std::unique_ptr<RollCall> others) noexcept
      : node_(node),
        others_(std::move(others)),
        stall_ns_(static_cast<std::uint64_t>(stall_s * 1e9)),
        next_ns_(stall_ns_) {}
  bool start() noexcept;
  void stop() noexcept;

 private:
  /// What was seen of a lane, last and when it was first so.
  struct Seen {
    std::uint64_t count = 0, since_ns = 0;
  };

  static void* entry(void* self) noexcept;
  void run();
  bool hear();
  std::vector<std::byte> pack() const;
  std::uint64_t oldest_call(std::uint64_t now);
  void look(std::uint64_t now);
  bool has_the_word() const;
  bool is_reported(std::uint64_t now, std::uint64_t age) const noexcept;
  bool others_tell(std::uint64_t now, std::uint64_t age);
  roll::NodeRoll read_node() const;
  void add_others(roll::NodeRoll* all);
  void report(std::uint64_t now, std::uint64_t longest);
  std::vector<const tutti_record*> records() const;
  const tutti_record& record(int local) const noexcept { return record_of(node_, local); }

  const Records node_;
  const std::unique_ptr<RollCall> others_;  // nullptr: the node's last rank watches
  const std::uint64_t stall_ns_;
  std::vector<Seen> seen_;         // by rank of the node and lane
  std::uint64_t next_ns_;          // how long a call must have lasted for the next report
  std::uint64_t stuck_ = 0;        // since when the oldest call of the last report has lasted
  std::uint64_t reported_ns_ = 0;  // when this node last reported, or was asked what to report
  std::uint64_t told_ns_ = 0;  // when it told the first node, which has not asked; 0: it has not
  pthread_t thread_{};
  Alarm alarm_;
};

bool Watch::start() noexcept {
  try {
    seen_.resize(static_cast<std::size_t>(node_.ranks) * TUTTI_RECORD_LANES);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!alarm_.open()) return false;
  // Signals belong to the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &Watch::entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void Watch::stop() noexcept {
  alarm_.ring();
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

/// Looks again and again, and sleeps in between, but for what other nodes ask.
void Watch::run() {
  const double stall = static_cast<double>(stall_ns_) / 1e9;
  const auto pause = static_cast<std::uint64_t>(
      std::clamp(stall / kLooksPerStall, kShortestPause, kLongestPause) * 1e9);
  bool hears = true;  // until the next look
  for (std::uint64_t next = clock_ns() + pause;;) {
    switch (alarm_.sleep(next, others_ && hears ? others_->descriptor() : -1)) {
      case Alarm::Heard::end:
        return;
      case Alarm::Heard::other:
        hears = hear();
        break;
      case Alarm::Heard::nothing:
        look(clock_ns());
        next = clock_ns() + pause;
        hears = true;
    }
  }
}

/// Another node asks what the ranks of this one are doing, or tells of a stall. False when it
/// cannot be heard.
bool Watch::hear() {
  std::uint64_t age = 0;
  const auto asked = [this] {
    std::vector<std::byte> packed = pack();
    write_recorders();
    reported_ns_ = clock_ns();
    told_ns_ = 0;
    return packed;
  };
  if (!others_->answer(asked, &age)) return false;
  const std::uint64_t now = clock_ns();
  if (age != 0 && !is_reported(now, age)) report(now, age);
  return true;
}

std::vector<const tutti_record*> Watch::records() const {
  std::vector<const tutti_record*> all;
  for (int local = 0; local < node_.ranks; ++local) all.push_back(&record(local));
  return all;
}

std::vector<std::byte> Watch::pack() const { return roll::pack_node(records(), clock_ns()); }

/// Since when the call that has lasted longest has. Reads one word of each lane.
std::uint64_t Watch::oldest_call(std::uint64_t now) {
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
  return oldest;
}

/// Reports when a call has lasted long enough: after the set time, then after twice that, and so
/// on, as long as the same call is the oldest.
void Watch::look(std::uint64_t now) {
  const std::uint64_t oldest = oldest_call(now);
  if (told_ns_ != 0 && now - told_ns_ > kAskedWithin) report(now, now - oldest);
  if (oldest != stuck_) {
    stuck_ = oldest;
    next_ns_ = stall_ns_;
  }
  if (now - oldest < next_ns_ || !has_the_word()) return;
  next_ns_ = 2 * (now - oldest);
  if (!others_tell(now, now - oldest)) report(now, now - oldest);
}

/// The first rank of the node has, until it leaves the job or ends.
bool Watch::has_the_word() const {
  if (node_.own == 0) return true;
  roll::RankSeen first;
  return !roll::read_record(record(0), &first) || first.finalizing || first.process == 'X';
}

/// All nodes that wait for one notice it, each by its own clock; a report of a call that lasts for
/// `age` is repeated when that has doubled.
bool Watch::is_reported(std::uint64_t now, std::uint64_t age) const noexcept {
  return reported_ns_ != 0 && now - reported_ns_ < age / 5 * 2;
}

/// Whether what is to be said of this stall is said elsewhere, or has been here.
bool Watch::others_tell(std::uint64_t now, std::uint64_t age) {
  if (!others_ || others_->descriptor() < 0) return false;
  if (is_reported(now, age)) return true;
  if (others_->is_first() || !others_->tell_first(age)) return false;
  told_ns_ = now;
  return true;
}

roll::NodeRoll Watch::read_node() const {
  roll::NodeRoll node;
  // As others are read: what can be said of a rank does not depend on where it is.
  if (!roll::unpack_node(pack(), clock_ns(), &node)) node = {};
  return node;
}

void Watch::add_others(roll::NodeRoll* all) {
  if (!others_ || !others_->is_first()) return;
  others_->ask_others([all](const std::vector<std::byte>& packed) {
    roll::NodeRoll node;
    if (roll::unpack_node(packed, clock_ns(), &node)) all->add(std::move(node));
  });
}

std::uint64_t longest_of(const std::vector<roll::RankSeen>& ranks, std::uint64_t now) noexcept {
  std::uint64_t longest = 0;
  for (const roll::RankSeen& rank : ranks) {
    for (const roll::CallSeen& call : rank.calls) {
      if (call.inside && !rank.finalizing && call.since_ns != 0 && call.since_ns < now)
        longest = std::max(longest, now - call.since_ns);
    }
  }
  return longest;
}

void Watch::report(std::uint64_t now, std::uint64_t longest) {
  reported_ns_ = now;
  told_ns_ = 0;
  roll::NodeRoll all = read_node();
  add_others(&all);
  if (all.ranks.empty()) return;
  longest = std::max(longest, longest_of(all.ranks, now));
  const auto seen = static_cast<std::int32_t>(all.ranks.size());
  const char* const whose = seen == state.size    ? "the ranks"
                            : seen <= node_.ranks ? "the ranks of this node"
                                                  : "those ranks that can be seen";
  char head[200];
  std::snprintf(head, sizeof head,
                "tutti: a call has lasted for %.0f s; what %s are doing (TUTTI_STALL=0: do not "
                "say):\n",
                static_cast<double>(longest) / 1e9, whose);
  const roll::Roll roll = roll::call_roll(
      all.ranks,
      [&all](const roll::RankSeen& rank, std::uint64_t site) { return all.site(rank, site); });
  const std::string text = head + roll::text_of(roll, state.size, now);
  // In one piece, so that no other output comes in between.
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  write_recorders();
}

Watch* watch = nullptr;               // written by the threads of MPI_Init and MPI_Finalize
std::unique_ptr<RollCall> roll_call;  // between the two calls below; likewise

}  // namespace

Listener listen_for_stalls(const Records& node) noexcept {
  if (state.settings.stall_s <= 0 || state.job->place().nodes < 2 || node.base == nullptr ||
      node.own != 0)
    return {};
  roll_call.reset(new (std::nothrow) RollCall);
  if (!roll_call) return {};
  roll_call->open(state.job->place().address);
  return roll_call->own();
}

void begin_watch(const Records& node, const std::vector<Introduced>& ranks) {
  const bool watches = node.own == 0 || node.own == node.ranks - 1;
  if (!watches || state.settings.stall_s <= 0) return;
  if (roll_call) {
    std::vector<Listener> all;
    for (const Introduced& rank : ranks) {
      if (rank.listener.address.sin6_family != 0) all.push_back(rank.listener);
    }
    roll_call->meet(std::move(all), ranks.front().secret);
  }
  auto* const made = new (std::nothrow) Watch(node, state.settings.stall_s, std::move(roll_call));
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
