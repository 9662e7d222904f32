#include "engine/engine.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <new>

namespace tutti {
namespace {

constexpr std::uint64_t kHealthInterval = 100'000'000;  // ns between looks at the peers' health
constexpr std::uint32_t kLooksPerClock = 31;            // fruitless ones of a polling caller
constexpr std::uint64_t kSeldom = 1'000'000;  // ns between looks at the clock that are long
constexpr std::uint32_t kPausesPerRound = 16;
constexpr std::uint32_t kCloseRounds = 64;     // about 15 us
constexpr std::uint32_t kServedPerYield = 32;  // pumps for peers of the host's between yields
constexpr std::uint32_t kYields = 4;  // before a thread follows: what is near is there by then
constexpr std::uint32_t kRoundsPerClock = 16;  // rounds between looks at the clock
constexpr std::uint64_t kPumpedSlice =
    50'000;  // ns; shortest sleep while the host may have requests open
constexpr std::uint32_t kWaitsAwake = 1024;  // without a sleep: it sleeps no more
constexpr std::uint32_t kBulkRounds = 4;     // wake-ups for nothing after which much must be coming
constexpr long kGatherNs = 200'000;
constexpr std::uint64_t kPumpedShare = 256;  // it grows to this part of the time waited
// ns; who polls gives way this often, in case the system has put whom it waits for beside it.
constexpr std::uint64_t kGiveWay = 50'000;
// ns; a yield that takes less has let nobody run, one that takes more somebody who computes.
constexpr std::uint64_t kShortestTurn = 1'000, kLongestTurn = 1'000'000;

}  // namespace

Engine::Engine(Fabric& fabric, const WaitPolicy& policy, const HostPump& pump, bool threads,
               FramePool* frames)
    : fabric_(fabric),
      policy_(policy),
      host_(pump),
      own_frames_(frames == nullptr ? std::make_unique<FramePool>() : nullptr),
      frames_(frames == nullptr ? own_frames_.get() : frames),
      threads_(threads),
      virtual_time_(fabric.traits().virtual_time) {
  waiters_.next = &waiters_;
  waiters_.previous = &waiters_;
}

void Engine::Guard::take() noexcept {
  // The holder may be off its core (more ranks than cores), so spinning is not enough.
  for (std::uint32_t round = 0; engine_.locked_.exchange(true, std::memory_order_acquire);
       ++round) {
    if (round < 64) {
      cpu_pause();
    } else {
      sched_yield();
    }
  }
}

void Engine::Guard::give_and_wake() noexcept {
  const Followers::Woken woken = engine_.followers_.choose();
  engine_.locked_.store(false, std::memory_order_release);
  woken.wake_all();
}

// ---- threads that wait at the same time

Engine::Turn::Turn(Engine& engine) noexcept
    : engine_(engine), within_(engine.threads_ && engine.followers_.led_by_caller()) {
  engine_.inside_.fetch_add(1, std::memory_order_relaxed);
  if (!engine_.threads_) engine_.vain_seen_ns_ = kJustBegun;
}

Engine::Turn::~Turn() {
  // In one order with the thread's looking here after it has said that it sleeps.
  if (engine_.inside_.fetch_sub(1, std::memory_order_seq_cst) == 1) engine_.background_.left();
  if (engine_.threads_ && (within_ || !engine_.followers_.led_by_caller())) return;
  engine_.vain_seen_ns_ = engine_.followers_.empty() ? 0 : kJustBegun;  // the next one leads
  if (engine_.threads_) engine_.followers_.leave();
}

bool Engine::Turn::passes(Guard& guard) noexcept {
  const WaitPolicy& policy = engine_.policy_;
  const std::uint32_t most = policy.at_once ? 1 : policy.yield ? kYields : kCloseRounds;
  if (passes_ == most) return false;
  // The host is pumped at least once: who leads may have come for less, and sleeps between its own.
  const bool pumps = ++passes_ == most && engine_.host_.pump != nullptr;
  if (pumps) engine_.note_awaited();
  guard.pause();
  if (pumps) engine_.host_.pump(engine_.host_.self);
  if (!policy.yield) {
    for (std::uint32_t i = 0; i < kPausesPerRound; ++i) cpu_pause();
  } else if (!policy.at_once) {
    sched_yield();
  }
  guard.resume();
  return true;
}

bool Engine::may_lead() noexcept {
  if (followers_.led_by_caller()) return true;
  if (followers_.led()) return false;
  followers_.lead();
  vain_seen_ns_ = kJustBegun;
  return true;
}

void Engine::follow(Follower& follower, Guard& guard) noexcept {
  // Who leads begins anew: what this thread waits for may move only while the host is pumped often.
  wait_began_ns_ = 0;
  ++resumed_;
  wake_own();
  while (!follower.woken()) {
    const std::uint64_t rounds = rounds_;
    const bool long_enough = sleep_as(follower, kHealthInterval, guard);
    if (!long_enough || follower.woken() || rounds != rounds_) continue;
    // Who leads has not come back: it may be in a call back that waits for this thread.
    ++rounds_;
    followers_.lead();
    vain_seen_ns_ = kJustBegun;
    return;
  }
}

bool Engine::sleep_as(Follower& follower, std::uint64_t ns, Guard& guard) noexcept {
  followers_.add(follower);
  guard.pause();
  const bool long_enough = follower.sleep(ns);
  guard.resume();
  followers_.remove(follower);
  return long_enough;
}

void Engine::relax_beside(std::uint32_t round, Guard& guard) noexcept {
  if (!followers_.led() || followers_.led_by_caller()) return relax(round, guard);
  const auto moved = [this, seen = resumed_] { return resumed_ != seen; };
  Follower follower(moved, false);
  sleep_as(follower, round < kCloseRounds ? kPumpedSlice : policy_.slice_ns, guard);
}

void Engine::link(Waiter& waiter) noexcept {
  if (timed(waiter, clock_)) ++timed_;
  waiter.vain_ns = vain_ns_;
  waiter.previous = waiters_.previous;
  waiter.next = &waiters_;
  waiters_.previous->next = &waiter;
  waiters_.previous = &waiter;
}

void Engine::unlink(Waiter& waiter) noexcept {
  if (!virtual_time_ && timed(waiter, clock_)) --timed_;
  waiter.previous->next = waiter.next;
  waiter.next->previous = waiter.previous;
  waiter.next = nullptr;
  waiter.previous = nullptr;
}

bool Engine::poll() noexcept {
  fabric_.progress();
  read_clock();
  bool any = false;
  // A resumed task may link new waiters (at the end) and unlink others, so the walk restarts
  // after each resumption; `last` bounds it to the waiters present at the start.
  Waiter* const last = waiters_.previous;
  for (Waiter* waiter = waiters_.next; waiter != &waiters_;) {
    const bool at_end = waiter == last;
    Waiter* const next = waiter->next;
    if (waiter->reached()) {
      if (timed_ == 0 || !by_clock(*waiter)) ++moved_;
      unlink(*waiter);
      ++resumed_;
      waiter->take_status();
      waiter->resume();
      // Another thread of this rank may sleep until the operation that has just moved on is over.
      if (threads_) wake_own();
      any = true;
      break;
    }
    if (at_end) break;
    waiter = next;
  }
  return any;
}

bool Engine::any_reached() noexcept {
  read_clock();
  for (const Waiter* waiter = waiters_.next; waiter != &waiters_; waiter = waiter->next) {
    if (waiter->reached()) return true;
  }
  return false;
}

void Engine::relax(std::uint32_t round, Guard& guard) noexcept {
  ++rounds_;
  if (round == 0) {
    wait_began_ns_ = 0;
    // What came right after somebody else's turn came from whoever had it.
    beside_ = turn_taken_;
  }
  turn_taken_ = false;
  const std::uint64_t breakages = fabric_.breakages();
  if (breakages != 0) [[unlikely]] {
    const std::uint64_t resumed_before = resumed_;
    hear_all();
    if (resumed_ != resumed_before) return;
  }
  if (host_.serves != nullptr && round >= kCloseRounds && host_.serves(host_.self))
    return serve_host(round, guard);
  if (policy_.at_once) {
    if (round >= kBulkRounds) {
      // Much is arriving, in many small pieces: let some of it gather.
      guard.pause();
      const timespec gather{0, kGatherNs};
      nanosleep(&gather, nullptr);
      guard.resume();
    }
    sleep_at_once(guard);
    return;
  }
  if (beside_ && round < kCloseRounds) return give_way(guard);
  if (!policy_.yield && round < kCloseRounds && !guard.held()) {
    // What is awaited is probably on its way: look closely, and leave the host alone.
    for (std::uint32_t i = 0; i < kPausesPerRound && !any_reached(); ++i) cpu_pause();
    return;
  }
  const std::uint64_t resumed = resumed_;  // before the guard is given up for the first time
  const bool pumps = host_.pump != nullptr && (policy_.yield ? round % 4 == 3 : round % 2 == 1);
  if (pumps) note_awaited();
  guard.pause();
  if (pumps) host_.pump(host_.self);
  if (policy_.yield) {
    sched_yield();
  } else {
    for (std::uint32_t i = 0; i < kPausesPerRound; ++i) cpu_pause();
  }
  guard.resume();
  if (round == 0 || round % kRoundsPerClock != 0) return;

  const std::uint64_t now = fabric_.now_ns();
  if (wait_began_ns_ == 0) wait_began_ns_ = now;
  const std::uint64_t waited = now - wait_began_ns_;
  look_after_health(now);
  if (!policy_.yield && now - std::max(wait_began_ns_, gave_way_ns_) >= kGiveWay) give_way(guard);
  if (waited >= policy_.active_ns) {
    sleep_long(waited, resumed, breakages, guard);
  }
}

/// From here on every call sleeps, until something is reached, another thread has moved on, or more
/// has broken than the `breakages` that were heard of.
void Engine::sleep_long(std::uint64_t waited, std::uint64_t resumed, std::uint64_t breakages,
                        Guard& guard) noexcept {
  // A host that may have requests open moves its data only when it is pumped: often at first.
  // Without a host there is nothing to see to but the time, and the peers' health.
  const bool pumped =
      host_.pump != nullptr && (host_.pending == nullptr || host_.pending(host_.self));
  const bool undisturbed = host_.pump == nullptr && timed_ == 0;
  const std::uint64_t most = undisturbed ? kHealthInterval : policy_.slice_ns;
  const std::uint64_t slice =
      pumped ? std::clamp(waited / kPumpedShare, kPumpedSlice, most) : most;
  for (std::uint32_t i = 0; i < kRoundsPerClock && resumed == resumed_ && !any_reached() &&
                            breakages == fabric_.breakages();
       ++i) {
    if (sleep_slice(slice, guard, Attention::all)) ++woken_;
    if (host_.pump != nullptr) {
      note_awaited();
      guard.pause();
      host_.pump(host_.self);
      guard.resume();
    } else {
      look_after_health(fabric_.now_ns());
    }
    fabric_.progress();
  }
}

/// For who polls: lets another process run that the system has put on the same processor. If that
/// one is awaited, polling takes it the time that it needs, a whole slice of the scheduler.
void Engine::give_way(Guard& guard) noexcept {
  guard.pause();
  const std::uint64_t begin = fabric_.now_ns();
  sched_yield();
  const std::uint64_t end = fabric_.now_ns();
  guard.resume();
  gave_way_ns_ = end;
  turn_taken_ = end - begin >= kShortestTurn && end - begin < kLongestTurn;
  if (end - begin >= kLongestTurn) beside_ = false;
}

/// As the host waits itself: its progress again and again, and the processor for others in between.
void Engine::serve_host(std::uint32_t round, Guard& guard) noexcept {
  note_awaited();
  guard.pause();
  host_.pump(host_.self);
  if (policy_.yield || round % kServedPerYield == 0) sched_yield();
  guard.resume();
  if (round % kRoundsPerClock != 0) return;
  const std::uint64_t now = fabric_.now_ns();
  if (wait_began_ns_ == 0) wait_began_ns_ = now;
  look_after_health(now);
}

/// Compares with the breakages that it has not been compared with.
bool Engine::read_breakages(Membership& members) noexcept {
  Breakage breakage;
  for (const std::uint64_t known = fabric_.breakages(); members.breakages_seen < known;
       ++members.breakages_seen) {
    if (!fabric_.breakage(members.breakages_seen, &breakage)) return false;  // soon
    const bool its_own =
        breakage.every_team
            ? breakage.rank < 0 || std::find(members.ranks, members.ranks + members.size,
                                             breakage.rank) != members.ranks + members.size
            : breakage.team[0] == members.team[0] && breakage.team[1] == members.team[1];
    if (!its_own) continue;
    // Who is said to be missing itself names who says so.
    const bool me = breakage.rank == fabric_.rank();
    members.broken = {
        breakage.code, me ? breakage.teller : breakage.rank,
        me ? "it has given this rank up" : "an operation of this team has failed there"};
    members.announced = true;
    return true;
  }
  return false;
}

void Engine::hear_all() noexcept {
  if (hearing_) return;
  hearing_ = true;
  for (bool again = true; again;) {
    again = false;
    for (Waiter* waiter = waiters_.next; waiter != &waiters_; waiter = waiter->next) {
      auto* members = static_cast<Membership*>(const_cast<void*>(waiter->owner));
      if (members->team == nullptr || waiter->reached() || !broken(*members)) continue;
      fail_waiters(*members, members->broken);  // the list has changed
      again = true;
      break;
    }
  }
  hearing_ = false;
}

Status Engine::fail(Membership& members, Status why) noexcept {
  if (members.team == nullptr || virtual_time_) return why;
  // The first that is told of a team counts for all, also where this rank has had another cause.
  if (!members.announced && !read_breakages(members)) {
    Breakage breakage{
        {members.team[0], members.team[1]}, why.peer, fabric_.rank(), why.code, false};
    if (why.code != Code::peer_lost && why.code != Code::timeout) breakage.rank = fabric_.rank();
    fabric_.tell_broken(breakage, members.ranks, members.size);
    static_cast<void>(read_breakages(members));
  }
  // Of the same cause this rank knows more than what the others are told.
  const Status& known = members.broken;
  if (known.ok() ||
      (known.code == why.code && (known.peer == why.peer || known.peer == fabric_.rank())))
    members.broken = why;
  hear_all();
  return members.broken;
}

void Engine::look_after_health(std::uint64_t now) noexcept {
  spend_in_vain(vain_seen_ns_ <= kJustBegun ? 0 : now - vain_seen_ns_, now);
  vain_seen_ns_ = now;
  if (look_is_due(now)) check_health();
}

bool Engine::look_is_due(std::uint64_t now) noexcept {
  if (waited_in_vain(0) <= kHealthInterval || now < next_health_ns_) return false;
  next_health_ns_ = now + kHealthInterval;
  return true;
}

bool Engine::glance() noexcept {
  if (virtual_time_) return false;
  if (fabric_.breakages() != 0) [[unlikely]]
    hear_all();
  if (looks_ != 0) {
    --looks_;
    return false;
  }
  const std::uint64_t now = fabric_.now_ns();
  const std::uint64_t since = now - glanced_ns_;
  glanced_ns_ = now;
  // Who looks in seldom is not kept from the clock for long.
  looks_ = since > kSeldom ? 0 : kLooksPerClock;
  spend_in_vain(std::min(since, kHealthInterval), now);
  if (!look_is_due(now)) return false;
  check_health();
  return true;
}

Status Engine::lost(const Membership& members) const noexcept {
  for (int i = 0; i < members.size; ++i) {
    const std::int32_t peer = members.ranks[i];
    if (peer != fabric_.rank() && !fabric_.alive(peer))
      return Status::peer_lost(peer, "the process has ended");
  }
  return Status::success();
}

Status Engine::health(const Membership& members) noexcept {
  const bool one = members.size == 1 && members.ranks[0] != fabric_.rank();
  if (one) fabric_.inquire(members.ranks[0]);
  TUTTI_TRY(lost(members));
  if (members.size == 1 && fabric_.left(members.ranks[0]))
    return Status::peer_lost(members.ranks[0], "the process has left");
  if (policy_.deadline_ns != 0 && waited_in_vain(0) > policy_.deadline_ns)
    return Status::timeout(members.size == 1 ? members.ranks[0] : -1, "the deadline has passed");
  return Status::success();
}

Status Engine::worth_waiting(Membership& members, std::uint64_t since_ns) noexcept {
  if (virtual_time_) return Status::success();
  const std::uint64_t now = fabric_.now_ns();
  // Who retries often may leave a wait no time to look at the clock.
  if (vain_seen_ns_ != 0) look_after_health(now);
  if (policy_.deadline_ns != 0 && !members.background && now - since_ns > policy_.deadline_ns)
    return Status::timeout(-1, "the deadline has passed");
  if (broken(members)) return members.broken;
  if (now < next_retry_look_ns_) return Status::success();
  next_retry_look_ns_ = now + kHealthInterval;
  check_health();
  return broken(members) ? members.broken : lost(members);
}

void Engine::sleep_at_once(Guard& guard) noexcept {
  const std::uint64_t resumed = resumed_;
  const std::uint64_t now = fabric_.now_ns();
  if (wait_began_ns_ == 0) wait_began_ns_ = now;
  look_after_health(now);
  if (host_.pump != nullptr && now - pumped_ns_ >= policy_.slice_ns) {
    pumped_ns_ = now;
    note_awaited();
    guard.pause();
    host_.pump(host_.self);
    guard.resume();
  }
  if (resumed == resumed_ && sleep_slice(policy_.slice_ns, guard, Attention::all)) ++woken_;
}

/// The first of those that something in here waits for: before the host is pumped, which asks.
void Engine::note_awaited() noexcept {
  std::int32_t peer = -1;
  for (const Waiter* waiter = waiters_.next; waiter != &waiters_ && peer < 0;
       waiter = waiter->next) {
    if (!waiter->reached() && waiter->peer != fabric_.rank()) peer = waiter->peer;
  }
  awaited_.store(peer, std::memory_order_relaxed);
}

/// Whose words everything in here waits for, where no other thread of this rank may sleep: one
/// neighbour's, or Fabric::kNeighbours, else Fabric::kAnybody.
std::int32_t Engine::only_awaited() const noexcept {
  if (threads_ || background_.pending() != 0) return Fabric::kAnybody;
  std::int32_t only = Fabric::kAnybody;
  for (const Waiter* waiter = waiters_.next; waiter != &waiters_; waiter = waiter->next) {
    if (static_cast<const Membership*>(waiter->owner)->belled) continue;
    const std::int32_t peer = waiter->peer;
    const bool of_peer = waiter->span == 1 && !timed(*waiter, clock_);
    if (!of_peer || peer < 0 || peer == fabric_.rank() || !fabric_.maps(peer))
      return Fabric::kAnybody;
    only = only == Fabric::kAnybody || only == peer ? peer : Fabric::kNeighbours;
  }
  return only;
}

bool Engine::sleep_slice(std::uint64_t nanoseconds, Guard& guard, Attention attention) noexcept {
  const std::int32_t awaited = only_awaited();
  if (awaited != Fabric::kAnybody) fabric_.await_only(awaited);
  waits_awake_ = kWaitsAwake;
  const std::uint32_t ticket = fabric_.arm(attention);
  bool early = true;
  if (!any_reached()) {
    guard.pause();
    const std::uint64_t begin = fabric_.now_ns();
    fabric_.sleep(ticket, nanoseconds, attention);
    early = fabric_.now_ns() - begin < nanoseconds;
    guard.resume();
  }
  fabric_.disarm(attention);
  if (awaited != Fabric::kAnybody) fabric_.await_only(Fabric::kAnybody);
  return early;
}

void Engine::check_health() noexcept {
  for (bool failed = true; failed;) {
    failed = false;
    for (Waiter* waiter = waiters_.next; waiter != &waiters_ && !failed; waiter = waiter->next) {
      if (waiter->reached()) continue;
      if (waiter->peer >= 0) fabric_.inquire(waiter->peer);
      auto& members = *static_cast<Membership*>(const_cast<void*>(waiter->owner));
      const Status vain = in_vain(*waiter, members);
      // Its last store may have come before it left.
      if (vain.ok() || waiter->reached()) continue;
      fail_unless_told(members, vain);
      failed = true;  // the list has changed
    }
  }
}

/// Why it makes no sense to wait any longer.
Status Engine::in_vain(const Waiter& waiter, const Membership& members) const noexcept {
  TUTTI_TRY(lost(members));
  // Looked at after deaths: who has noticed one leaves too, but is not to blame.
  if (waiter.peer >= 0 && fabric_.left(waiter.peer))
    return Status::peer_lost(waiter.peer, "the process has left");
  if (policy_.deadline_ns != 0 && !members.background &&
      waited_in_vain(waiter.vain_ns) > policy_.deadline_ns)
    return Status::timeout(waiter.peer, "the deadline has passed");
  return Status::success();
}

/// A peer that has told why it gives up may be gone by now: what it has told counts.
void Engine::fail_unless_told(Membership& members, Status why) noexcept {
  fail_waiters(members, broken(members) ? members.broken : why);
}

void Engine::fail_waiters(Membership& members, Status why) noexcept {
  members.broken = why;
  for (bool again = true; again;) {
    again = false;
    for (Waiter* waiter = waiters_.next; waiter != &waiters_; waiter = waiter->next) {
      // What has arrived counts: a peer may have left in good order after its last store.
      if (waiter->owner != &members || waiter->reached()) continue;
      unlink(*waiter);
      waiter->outcome = why;
      ++resumed_;
      waiter->resume();
      again = true;
      break;
    }
  }
}

}  // namespace tutti
