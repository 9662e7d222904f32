// The engine of one rank: resumes tasks when the words that they wait for are reached, and waits
// hybridly (spin, yield, sleep) when there is nothing to resume.
//
// Who drives it: a blocking caller inside drive(); test/wait of non-blocking operations; the
// progress thread while operations are pending and the application is elsewhere. The lock
// serialises them; a single-threaded program with nothing pending never takes it.
#pragma once

#include <algorithm>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "base/task.hpp"
#include "engine/background.hpp"
#include "engine/followers.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

/// The ranks that a wait depends on: when one of them dies, the wait fails instead of hanging.
struct Membership {
  const std::int32_t* ranks = nullptr;  // job ranks
  int size = 0;
  Status broken;                        // set once when a member is lost; later waits fail at once
  bool background = false;              // nobody waits for it at present: no deadline applies
  bool belled = false;                  // who writes what is awaited wakes this rank itself
  const std::uint64_t* team = nullptr;  // the id under which breakages are told; nullptr: none
  std::uint64_t breakages_seen = 0;     // breakages that it has been compared with
  bool announced = false;               // `broken` is what all members have been told
};

/// How a blocking wait proceeds. Times in nanoseconds.
struct WaitPolicy {
  std::uint32_t spins = 0;             // pauses inside an await before the task is suspended
  bool yield = false;                  // give the core away between polls: more ranks than cores
  bool at_once = false;                // sleep without having polled: the core is wanted elsewhere
  std::uint64_t active_ns = 0;         // how long to poll before sleeping
  std::uint64_t slice_ns = 1'000'000;  // longest sleep while the host MPI must be pumped; with
                                       // at_once, also how often it is
  std::uint64_t grace_ns = 100'000;    // how long the application has pending operations for
                                       // itself before the progress thread looks after them,
  std::uint64_t crowded_grace_ns = 0;  // and, if that is longer, where it waits for a processor
  std::uint64_t deadline_ns = 0;       // 0: none
};

/// Policy for `ranks` runnable ranks on `cores` available cores (affinity and cgroup limits).
/// `between_nodes`: what is awaited may come over a network.
WaitPolicy choose_wait_policy(int ranks, int cores, bool between_nodes,
                              const Settings& settings) noexcept;

/// Calls into the host MPI from a waiting application thread.
struct HostPump {
  void* self = nullptr;
  void (*pump)(void*) = nullptr;     // may be null
  bool (*pending)(void*) = nullptr;  // may be null
  /// Others wait for what only the pump moves: no sleep. May be null.
  bool (*serves)(void*) = nullptr;
  /// A blocking operation is about to wait for others (Tells says when): time for what has to be
  /// done anyhow and takes no longer than a word to them and back. May be null.
  void (*waits)(void*) = nullptr;
};

/// When a blocking operation tells the host that it is about to wait.
enum class Tells : std::uint8_t {
  never,
  at_first_look,  // all have sent at the same time: their words are on their way
  in_vain,        // who waits has sent nothing: what is there already is not kept waiting
};

inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

class Engine {
 public:
  /// `frames`: the pool for coroutine frames, or nullptr for one of its own. Simulated ranks share
  /// one.
  Engine(Fabric& fabric, const WaitPolicy& policy, const HostPump& pump, bool threads,
         FramePool* frames = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Fabric& fabric() noexcept { return fabric_; }
  FramePool& frames() noexcept { return *frames_; }
  const WaitPolicy& policy() const noexcept { return policy_; }
  Background& background() noexcept { return background_; }
  const Background& background() const noexcept { return background_; }

  // ---- in tasks ------------------------------------------------------------------------------

  /// Awaits until `word` >= `value`; fails when that will not happen. `peer`: the job rank that
  /// will write the word (-1: any member). `members` must outlive the wait.
  class Reached;
  Reached reached(const Word& word, std::uint64_t value, Membership& members,
                  std::int32_t peer = -1) noexcept;
  /// As reached(), for a task that serves whoever drives the engine, who looks each time in between
  /// whether what it waits for itself is over: nothing is spun for, and what is there already is
  /// for the next poll().
  Reached reached_aside(const Word& word, std::uint64_t value, Membership& members,
                        std::int32_t peer) noexcept;

  /// Awaits the end of all operations that were posted to `completion`; fails when one has failed.
  Reached completed(const Completion& completion, Membership& members,
                    std::int32_t peer = -1) noexcept;

  /// Follows Fabric::now_ns() while somebody awaits it: what a task waits on to try something again
  /// later.
  const Word& clock() const noexcept { return clock_; }

  // ---- by callers ----------------------------------------------------------------------------

  /// As reached(), until the sum of the `span` words from `first` on is at least `sum`: for flags
  /// of which any may be the next.
  Reached reached_any(const Word* first, std::uint32_t span, std::uint64_t sum,
                      Membership& members) noexcept;
  /// The same for words that are `stride` words apart, or until `other` has reached `other_value`.
  Reached reached_either(const Word* first, std::uint32_t span, std::uint32_t stride,
                         std::uint64_t sum, const Word& other, std::uint64_t other_value,
                         Membership& members) noexcept;
  /// As reached(), of either of two words of `peer`.
  Reached reached_either(const Word& one, const Word& other, std::uint64_t value,
                         Membership& members, std::int32_t peer) noexcept;
  /// As reached(), or until clock() has come to `deadline_ns`: who awaits it looks which it was.
  Reached reached_by(const Word& word, std::uint64_t value, std::uint64_t deadline_ns,
                     Membership& members, std::int32_t peer = -1) noexcept;
  /// Lets the others go first: resumed by a later poll(). A thread of this rank that sleeps is
  /// woken for it, since the caller may be about to leave.
  class Later;
  Later later() noexcept;

  /// Takes the lock when somebody else may be inside. Every public entry of the core holds one.
  class Guard;

  /// Makes a task by calling `make()` and runs it to its end, waiting as the policy says; `tells`:
  /// when the host is told of the first wait. The guard is released while waiting.
  template <class Make>
  Status run(Make make, Guard& guard, Tells tells = Tells::at_first_look) noexcept {
    spins_ = policy_.spins;
    tells_ = spins_ != 0 && host_.waits != nullptr ? tells : Tells::never;
    Task task = make();
    if (!task.done()) {
      task.start();
      spins_ = 0;
      tells_ = Tells::never;  // whoever polls from here on may be another thread
      if (!task.done()) wait_until([&task] { return task.done(); }, guard);
    }
    spins_ = 0;
    tells_ = Tells::never;
    count_awake();  // most operations of a program that is awake end without a wait
    // Known on the way on which it nearly always goes, the outcome stays in registers (Code).
    return task.ok() ? Status::success() : task.result();
  }

  /// True when `word` has reached `value`, now or within the pauses that a blocking caller may
  /// spend. What a function asks before it makes a coroutine of itself.
  bool soon(const Word& word, std::uint64_t value) noexcept {
    return soon_as([this, &word, value] {
      if (word.load(std::memory_order_acquire) < value) return false;
      fabric_.look(&word, sizeof word);
      return true;
    });
  }
  /// The same of any condition.
  template <class Is>
  bool soon_as(Is is) noexcept {
    if (tells_ == Tells::at_first_look) tell_host();
    if (is()) return true;
    if (tells_ == Tells::in_vain) tell_host();
    for (std::uint32_t i = spins_; i != 0; --i) {
      cpu_pause();
      if (is()) return true;
    }
    return false;
  }

  /// Waits until `done()`, progressing everything. The guard is released while waiting.
  template <class Done>
  void wait_until(Done done, Guard& guard) noexcept {
    Turn turn(*this);
    for (std::uint32_t round = 0; !done();) {
      spins_ = policy_.spins;
      const bool progressed = poll();
      spins_ = 0;
      if (progressed) {
        round = 0;
      } else if (turn.leads()) {
        relax(round++, guard);
      } else if (!turn.passes(guard)) {
        Follower follower(done);
        follow(follower, guard);
        round = 0;
      }
    }
    count_awake();
  }

  /// Resumes a task whose word is reached. True when there was one. Under the guard.
  bool poll() noexcept;

  /// One fruitless round of waiting: pump, spin, yield or sleep. `round` counts from 0. The guard
  /// is released meanwhile. Checks the health of peers now and then.
  void relax(std::uint32_t round, Guard& guard) noexcept;
  /// The same for a caller that looks at something itself between its rounds: where another thread
  /// leads, sleeps until something has moved on, or for a short time.
  void relax_beside(std::uint32_t round, Guard& guard) noexcept;

  /// True when the members cannot communicate any more, by what is known now (`broken` then says
  /// why). Costs a load while nothing is broken anywhere. Under the guard.
  bool broken(Membership& members) noexcept {
    if (!members.broken.ok()) return true;
    return fabric_.breakages() != members.breakages_seen && members.team != nullptr &&
           read_breakages(members);
  }
  /// An operation of the members has failed here: says so to all of them, and ends the waits of
  /// this process that depend on them. Gives the failure that all members report. Under the guard.
  Status fail(Membership& members, Status why) noexcept;

  /// A caller that polls by itself (test) has looked in vain. Every so many times this looks at the
  /// clock, and as often as a wait would at the health of peers and at the deadline, which counts
  /// the time that is spent with polling. True when it has done so. Under the guard.
  bool glance() noexcept;
  /// Whether one of the members is lost, or the deadline has passed for who polls: for callers for
  /// whom nothing waits. Under the guard.
  Status health(const Membership& members) noexcept;

  /// For a task that tries something again and again, waiting on the clock since `since_ns`, which
  /// looks like progress from outside: fails the waits of others that a death or the deadline has
  /// made vain, and says whether its own members live and its deadline has not passed. Under the
  /// guard.
  Status worth_waiting(Membership& members, std::uint64_t since_ns) noexcept;

  /// For callers that complete operations outside of tasks: threads that wait for them look again.
  void moved_on() noexcept {
    ++resumed_;
    ++moved_;
    if (threads_ && fabric_.sleepers()) fabric_.wake(fabric_.rank());
  }

  /// True where the caller, who is in a task, holds the lock; without it nobody else may be called.
  bool guarded() const noexcept { return locked_.load(std::memory_order_relaxed); }

  /// Whom the wait that is at work waited for, a job rank, when the host was last pumped; -1: any
  /// rank, or nobody.
  std::int32_t awaited() const noexcept { return awaited_.load(std::memory_order_relaxed); }

  /// Times that a thread of the application slept in here and was woken, which costs the peer that
  /// wakes it a call of the kernel. Under the guard.
  std::uint64_t times_woken() const noexcept { return woken_; }

 private:
  friend class Reached;
  friend class Guard;
  friend class Background;
  friend class ProgressThread;

  /// The part of one wait among those of the rank's threads.
  class Turn {
   public:
    explicit Turn(Engine& engine) noexcept;
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// Whether the caller polls for all; takes the lead where nobody has it.
    bool leads() noexcept { return !engine_.threads_ || engine_.may_lead(); }
    /// Waits a moment without leading: what is awaited may be on its way. False when that has been
    /// done often enough.
    bool passes(Guard& guard) noexcept;

   private:
    Engine& engine_;
    std::uint32_t passes_ = 0;
    const bool within_;  // a wait of the same thread's that leads
  };
  bool may_lead() noexcept;
  /// Sleeps until it is over or this thread leads.
  void follow(Follower& follower, Guard& guard) noexcept;
  /// Sleeps once; true when it has slept for all of `ns`.
  bool sleep_as(Follower& follower, std::uint64_t ns, Guard& guard) noexcept;

  void count_awake() noexcept {
    if (waits_awake_ != 0 && --waits_awake_ == 0) fabric_.stays_awake();
  }

  void link(Waiter& waiter) noexcept;
  void unlink(Waiter& waiter) noexcept;
  void tell_host() noexcept {
    tells_ = Tells::never;
    host_.waits(host_.self);
  }
  bool any_reached() noexcept;
  void sleep_at_once(Guard& guard) noexcept;
  void sleep_long(std::uint64_t waited, std::uint64_t resumed, std::uint64_t breakages,
                  Guard& guard) noexcept;
  void give_way(Guard& guard) noexcept;
  void serve_host(std::uint32_t round, Guard& guard) noexcept;
  void note_awaited() noexcept;
  void look_after_health(std::uint64_t now) noexcept;
  /// A thread has waited or polled for `ns`, until `now`; that counts unless something has moved
  /// since, and once where several threads have.
  void spend_in_vain(std::uint64_t ns, std::uint64_t now) noexcept {
    ns = std::min(ns, now - std::min(now, spent_until_ns_));
    spent_until_ns_ = std::max(spent_until_ns_, now);
    if (moved_ != vain_moved_) {
      vain_moved_ = moved_;
      vain_since_ = vain_ns_;
    } else {
      vain_ns_ += ns;
    }
  }
  /// Vain time since something moved, and since vain_ns_ was `from`.
  std::uint64_t waited_in_vain(std::uint64_t from) const noexcept {
    return vain_ns_ - std::max(from, vain_since_);
  }
  bool look_is_due(std::uint64_t now) noexcept;
  Status lost(const Membership& members) const noexcept;
  void read_clock() noexcept {
    if (timed_ != 0) clock_.store(fabric_.now_ns(), std::memory_order_relaxed);
  }
  static bool timed(const Waiter& waiter, const Word& clock) noexcept {
    return waiter.word == &clock || waiter.other == &clock;
  }
  /// Whether what has reached a waiter is only the time.
  bool by_clock(const Waiter& waiter) const noexcept {
    return waiter.word == &clock_ || (waiter.other == &clock_ && !waiter.word_reached());
  }
  void set_alarm(const Waiter& waiter) noexcept {
    if (timed(waiter, clock_))
      fabric_.alarm(clock_, waiter.word == &clock_ ? waiter.value : waiter.other_value);
  }
  void check_health() noexcept;
  Status in_vain(const Waiter& waiter, const Membership& members) const noexcept;
  bool read_breakages(Membership& members) noexcept;
  void hear_all() noexcept;
  /// Threads of this rank that sleep look again.
  void wake_own() noexcept {
    if (fabric_.sleepers()) fabric_.wake(fabric_.rank());
  }
  void fail_waiters(Membership& members, Status why) noexcept;
  void fail_unless_told(Membership& members, Status why) noexcept;
  /// Sleeps once; true when that ended before its time.
  std::int32_t only_awaited() const noexcept;
  bool sleep_slice(std::uint64_t nanoseconds, Guard& guard, Attention attention) noexcept;
  /// Read in this order: who holds the lock while the last operation ends still runs engine code
  /// when none is pending any more.
  bool must_lock() const noexcept {
    return threads_ || background_.pending() != 0 || locked_.load(std::memory_order_acquire);
  }

  std::uint32_t visits() const noexcept { return visits_.load(std::memory_order_relaxed); }

  Fabric& fabric_;
  WaitPolicy policy_;
  HostPump host_;
  std::unique_ptr<FramePool> own_frames_;
  FramePool* frames_;
  const bool threads_;  // the application has several threads inside
  const bool virtual_time_;
  std::uint32_t spins_ = 0;  // pauses that an await may spend: policy_.spins while driving, else 0
  Tells tells_ = Tells::never;       // that a blocking operation is about to wait
  Waiter waiters_;                   // head of the circular list of suspended tasks
  Word clock_{0};                    // local; written only while timed_ != 0
  std::uint32_t timed_ = 0;          // waiters on the clock
  std::uint32_t waits_awake_ = 0;    // operations until it counts as awake; 0: it does
  std::uint64_t wait_began_ns_ = 0;  // start of the present run of fruitless rounds
  std::uint64_t rounds_ = 0;         // calls of relax()
  std::uint64_t gave_way_ns_ = 0;    // when give_way() last ended
  bool turn_taken_ = false;          // in the round before, somebody else ran here for a while
  bool beside_ = false;              // whom this rank waits for seems to share its processor
  std::uint64_t next_health_ns_ = 0;
  std::uint64_t next_retry_look_ns_ = 0;  // the same for worth_waiting()
  std::uint32_t looks_ = 0;               // fruitless ones until glance() reads the clock again
  std::uint64_t glanced_ns_ = 0;          // when it last did
  // Deadlines count the time that a rank waits or polls while nothing moves, not what it computes.
  static constexpr std::uint64_t kJustBegun = 1;
  std::uint64_t vain_ns_ = 0;         // all of it, ever
  std::uint64_t spent_until_ns_ = 0;  // the end of what has been counted
  std::uint64_t vain_since_ = 0;      // vain_ns_ when something last moved
  std::uint64_t vain_moved_ = 0;      // moved_ then
  std::uint64_t vain_seen_ns_ = 0;    // when a wait last added to it; 0: none waits
  bool hearing_ = false;              // hear_all() is at work: what it ends may come back to it
  std::uint64_t pumped_ns_ = 0;       // when the host was pumped last; with WaitPolicy::at_once
  std::uint64_t woken_ = 0;
  std::atomic<std::int32_t> awaited_{-1};  // written under the guard
  std::uint64_t resumed_ = 0;  // tasks resumed so far: a sleeper looks again at what it waits for
  std::uint64_t moved_ = 0;    // those among them that something happened for: not just time passed

  alignas(kCacheLine) std::atomic<bool> locked_{false};  // the lock
  Followers followers_;  // beside the lock, at whose release they are looked at
  std::atomic<std::uint32_t> inside_{
      0};  // application threads waiting inside; the progress thread keeps away
  std::atomic<std::uint32_t> visits_{0};  // guards that took the lock; written by who holds it
  Background background_{*this};
};

class Engine::Guard {
 public:
  explicit Guard(Engine& engine) noexcept : engine_(engine), held_(engine.must_lock()) {
    if (held_) visit();
  }
  ~Guard() {
    if (held_) give();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  void take() noexcept;
  void give() noexcept {
    if (!engine_.followers_.empty()) [[unlikely]]
      return give_and_wake();
    engine_.locked_.store(false, std::memory_order_release);
  }
  /// Gives the lock up for a moment (while waiting) / takes it back.
  void pause() noexcept {
    if (held_) give();
  }
  void resume() noexcept {
    if (held_) take();
  }
  bool held() const noexcept { return held_; }
  /// For an entry that is about to make an operation pending: from now on there may be a thread.
  void escalate() noexcept {
    if (!held_) {
      held_ = true;
      visit();
    }
  }

 private:
  void visit() noexcept {
    take();
    engine_.visits_.store(engine_.visits() + 1, std::memory_order_relaxed);
  }
  void give_and_wake() noexcept;

  Engine& engine_;
  bool held_;
};

class Engine::Reached {
 public:
  Reached(Engine& engine, const Word& word, std::uint64_t value, Membership& members,
          std::int32_t peer, std::uint32_t span = 1, std::uint32_t stride = 1,
          const Word* other = nullptr, std::uint64_t other_value = 0) noexcept
      : engine_(engine) {
    waiter_.word = &word;
    waiter_.value = value;
    waiter_.owner = &members;
    waiter_.peer = peer;
    waiter_.span = span;
    waiter_.stride = stride;
    waiter_.other = other;
    waiter_.other_value = other_value;
  }
  Reached(Engine& engine, const Completion& completion, Membership& members,
          std::int32_t peer) noexcept
      : Reached(engine, completion.finished_, completion.posted_, members, peer) {
    waiter_.counts = true;
  }
  struct Aside {};
  Reached(Aside, Engine& engine, const Word& word, std::uint64_t value, Membership& members,
          std::int32_t peer) noexcept
      : Reached(engine, word, value, members, peer) {
    aside_ = true;
  }
  Reached(const Reached&) = delete;
  Reached& operator=(const Reached&) = delete;
  ~Reached() {
    if (waiter_.next != nullptr) engine_.unlink(waiter_);
  }

  bool await_ready() noexcept {
    if (soon()) {
      if (!waiter_.counts) return true;
      waiter_.take_status();
    } else {
      // What has arrived counts, also where its sender is lost.
      if (aside_ && waiter_.reached()) return false;
      auto& members = *static_cast<Membership*>(const_cast<void*>(waiter_.owner));
      if (!engine_.broken(members)) return false;
      waiter_.outcome = members.broken;
    }
    return waiter_.outcome.ok() || waiter_.asked;
  }
  void await_suspend(Task::Handle handle) noexcept {
    // Nothing of this is touched behind fail(): who is resumed may end the task that waits here.
    if (!waiter_.outcome.ok()) [[unlikely]]
      return Task::fail(handle, waiter_.outcome).resume();
    waiter_.handle = handle;
    if (engine_.virtual_time_) {
      engine_.fabric_.watch(waiter_);
      engine_.set_alarm(waiter_);
    } else {
      engine_.link(waiter_);
    }
  }
  void await_resume() const noexcept {}

 private:
  void suspend(Task::Handle handle) noexcept { await_suspend(handle); }
  /// Many words, or the time, are not spun for.
  bool soon() noexcept {
    if (aside_ && !engine_.virtual_time_) return false;
    if (waiter_.span != 1 || timed(waiter_, engine_.clock_)) return waiter_.reached();
    if (waiter_.other == nullptr) return engine_.soon(*waiter_.word, waiter_.value);
    return engine_.soon_as([this] { return waiter_.reached(); });
  }

  Engine& engine_;
  Waiter waiter_;
  bool aside_ = false;
  friend class Engine;
  friend class Later;
  friend class ReachedOutcome;
};

/// co_await outcome(a wait): gives ok, or why what was waited for will not happen.
class ReachedOutcome {
 public:
  explicit ReachedOutcome(Engine::Reached& reached) noexcept : reached_(reached) {
    reached.waiter_.asked = true;
  }
  bool await_ready() noexcept { return reached_.await_ready(); }
  void await_suspend(Task::Handle handle) noexcept { reached_.suspend(handle); }
  Status await_resume() const noexcept { return reached_.waiter_.outcome; }

 private:
  Engine::Reached& reached_;
};
inline ReachedOutcome outcome(Engine::Reached&& reached) noexcept {
  return ReachedOutcome(reached);
}

inline Engine::Reached Engine::reached_aside(const Word& word, std::uint64_t value,
                                             Membership& members, std::int32_t peer) noexcept {
  return Reached(Reached::Aside{}, *this, word, value, members, peer);
}

inline Engine::Reached Engine::completed(const Completion& completion, Membership& members,
                                         std::int32_t peer) noexcept {
  return Reached(*this, completion, members, peer);
}

inline Engine::Reached Engine::reached(const Word& word, std::uint64_t value, Membership& members,
                                       std::int32_t peer) noexcept {
  return Reached(*this, word, value, members, peer);
}

inline Engine::Reached Engine::reached_either(const Word* first, std::uint32_t span,
                                              std::uint32_t stride, std::uint64_t sum,
                                              const Word& other, std::uint64_t other_value,
                                              Membership& members) noexcept {
  return Reached(*this, *first, sum, members, -1, span, stride, &other, other_value);
}

inline Engine::Reached Engine::reached_either(const Word& one, const Word& other,
                                              std::uint64_t value, Membership& members,
                                              std::int32_t peer) noexcept {
  return Reached(*this, one, value, members, peer, 1, 1, &other, value);
}

inline Engine::Reached Engine::reached_by(const Word& word, std::uint64_t value,
                                          std::uint64_t deadline_ns, Membership& members,
                                          std::int32_t peer) noexcept {
  return Reached(*this, word, value, members, peer, 1, 1, &clock_, deadline_ns);
}

inline Engine::Reached Engine::reached_any(const Word* first, std::uint32_t span, std::uint64_t sum,
                                           Membership& members) noexcept {
  return Reached(*this, *first, sum, members, -1, span);
}

class Engine::Later {
 public:
  explicit Later(Engine& engine) noexcept : reached_(engine, kAlways, 0, nobody_, -1) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(Task::Handle handle) noexcept { reached_.suspend(handle); }
  void await_resume() const noexcept {}

 private:
  static inline const Word kAlways{0};
  Membership nobody_;
  Reached reached_;
};

inline Engine::Later Engine::later() noexcept {
  if (!virtual_time_) wake_own();
  return Later(*this);
}

}  // namespace tutti
