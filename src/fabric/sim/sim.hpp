// The simulation's fabric: the contract in virtual time.
//
// Memory is real: every rank has an arena in this process, and puts store into it when the
// simulated message becomes visible. Without payload only counters are stored, and the arenas of a
// machine with several nodes lie interleaved (Traits::arena_scale), so that a rank costs the words
// that it uses.
#pragma once

#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/sim/world.hpp"

namespace tutti::sim {

class alignas(kCacheLine) SimFabric final : public Fabric {
 public:
  SimFabric(World& world, int rank) noexcept;
  ~SimFabric() override = default;

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  void withdraw(Region& region) noexcept override { region = Region{}; }
  Region& arena() noexcept override { return arena_; }
  Status arena_of(std::int32_t peer, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override;
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  bool maps(std::int32_t peer) const noexcept override;
  bool reaches(std::int32_t peer) const noexcept override { return peer >= 0 && peer < size_; }
  std::int32_t node_of(std::int32_t peer) const noexcept override { return world_.node_of(peer); }
  Locality locality_of(std::int32_t peer) const noexcept override {
    return world_.lines().locality_of(peer);
  }

  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion,
             Event event = Event::solicited) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;

  /// The put before it, to the same peer on another node, is one that interrupts (solicited event).
  void wake(std::int32_t peer, Event event) noexcept override;

  bool alive(std::int32_t peer) noexcept override;
  /// Made with the first call.
  Datagrams* datagrams() noexcept override;
  std::uint64_t now_ns() const noexcept override { return clock_ / 1000; }
  void watch(Waiter& waiter) noexcept override;
  void alarm(Word& clock, std::uint64_t at_ns) noexcept override;

  /// This rank's own time. It is never before the event clock when the rank runs.
  Time clock() const noexcept { return clock_; }
  /// Lets the rank's processor work until `time` (a late start, computation).
  void advance_to(Time time) noexcept {
    if (time > clock_) clock_ = time;
  }
  /// The application computes. What becomes ready meanwhile is looked at afterwards; with
  /// `foreground` (the word that the application itself will wait for) an interrupt runs it at once
  /// instead, for Ti each, and the computation takes longer by that. foreground == nullptr ends it.
  /// `selective`: only puts that were followed by wake() interrupt.
  void compute(Time duration, const Word* foreground = nullptr, bool selective = false) noexcept {
    handlers_free_ = clock_;
    occupy(duration);
    foreground_ = foreground;
    selective_ = selective;
  }
  /// Number of tasks of this rank that wait.
  int waiting() const noexcept;
  /// Whether one does, and whom its first one waits for (-1: nobody alone).
  bool waits(std::int32_t* peer) const noexcept {
    if (waiters_.next == &waiters_) return false;
    *peer = waiters_.next->peer;
    return true;
  }

  /// Interrupts taken so far.
  std::uint64_t interrupts() const noexcept { return interrupts_; }

 private:
  friend class World;
  friend class SimDatagrams;
  /// The processor works: all time that this rank spends passes through here, where noise makes it
  /// longer.
  void occupy(Time duration) noexcept {
    worked_ += duration;
    const Noise& noise = world_.spec().noise;
    clock_ = noise.any() ? end_of_work(noise, rank_, clock_, duration) : clock_ + duration;
  }
  void resume(Waiter& waiter, Time time) noexcept;
  void interrupt(Waiter& waiter, Time time) noexcept;
  void cast(Flight* flight) noexcept;
  void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept override;
  void spend_virtually(Work work, std::size_t bytes) noexcept override;
  void wrote_virtually(const void* begin, std::size_t bytes) noexcept override;
  void look_virtually(const void* begin, std::size_t bytes) noexcept override;
  bool has_line(const Waiter& waiter, Time time) noexcept;
  void look_again(Time time) noexcept;
  bool interrupts(const Waiter& waiter, Time time) const noexcept;
  Status check(const Remote& remote, std::size_t offset, std::size_t bytes) const noexcept;
  Status put_within_node(const Remote& target, std::size_t offset, const void* source,
                         std::size_t bytes, const Tail* tail, Completion* completion) noexcept;
  void copy_to_registered(Message& message, Completion* completion) noexcept;
  Word* word_of(const Remote& remote, std::size_t offset) const noexcept;
  /// Resumes tasks whose words are reached, at `time` at the earliest, until there are none.
  void settle(Time time) noexcept;
  // What settle() will touch, one dependence after the other (World::prefetch_ahead).
  void prefetch() const noexcept;
  void prefetch_waiter() const noexcept { __builtin_prefetch(waiters_.next); }
  void prefetch_task() const noexcept;
  void fail_waits_on(std::int32_t lost, Time time) noexcept;
  void unlink(Waiter& waiter) noexcept;

  // First what every event touches: with Fabric's members, kHot bytes.
  World& world_;
  Time clock_ = 0;
  Time worked_ = 0;                   // by the processor so far, without detours
  const Word* foreground_ = nullptr;  // interrupts are on, except for who waits for this
  Time handlers_free_ = 0;            // when the last interrupt handler was through
  bool lost_ = false;
  bool selective_ = false;  // only what was rung for interrupts
  bool rung_ = false;       // what is being settled was
  Waiter waiters_;          // head of the circular list of this rank's waits
  static constexpr std::size_t kHot = 3 * kCacheLine;
  Message* last_put_ = nullptr;       // the newest, to another node ...
  std::uint64_t last_put_event_ = 0;  // ... and during which event: afterwards it may be gone
  std::uint64_t interrupts_ = 0;
  Time asked_ = 0;  // when it looks again
  std::unique_ptr<SimDatagrams> datagrams_;
  Region arena_;
};

}  // namespace tutti::sim
