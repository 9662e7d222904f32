// The fabric contract: one-sided communication between the ranks of a job.
//
// A Fabric is one rank's access to all the others. Implementations: shm (processes or threads of a
// node), sim (virtual time); decorators in wrap/. Each passes tests/fabric/conformance unchanged.
//
// Common rules
//  - No operation blocks, except arm/sleep, which exist for blocking. No operation throws.
//  - Thread-safety: one thread at a time per Fabric object (the engine holds its lock), except
//    wake(), alive() and now_ns(), which any thread may call.
//  - Ownership: memory passed in stays the caller's and must stay valid until the operation's
//    completion; keys and Remotes are values.
//  - Failure: a Status, never an abort, never a hang. After peer_lost, further operations towards
//    that peer fail at once with peer_lost; those towards other peers are unaffected.
//  - Words are 64-bit, 8-byte aligned, only ever increased by their one writer, and compared
//    with >=. A reader that has seen a Word reach v (acquire) sees everything that its writer wrote
//    before, whatever the network's own ordering.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/status.hpp"
#include "base/task.hpp"
#include "topo/locality.hpp"

namespace tutti {

/// A flag or counter in memory that others reach: monotonic, single writer.
using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

inline constexpr std::size_t kCacheLine = 64;

/// What a peer needs in order to reach an exposed region. Serialisable: plain bytes, no pointers
/// that mean anything to another process, same meaning in every process of the job.
struct Key {
  std::uint64_t words[4] = {0, 0, 0, 0};
};

/// Memory of this rank that peers may read and write.
struct Region {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t handle = 0;  // of the implementation
  Key key;                   // to be sent to peers
};

/// A peer's region as seen from here.
struct Remote {
  std::int32_t peer = -1;  // job rank
  std::size_t bytes = 0;
  void* mapped = nullptr;    // where loads and stores reach it, or nullptr
  std::uint64_t handle = 0;  // of the implementation
  Key key;
};

/// The counter behind the data (VIA-2003, section 3.2): `value` is stored to the Word at `offset`
/// of the target region, and becomes visible there no earlier than the data of the same put.
struct Tail {
  std::size_t offset = 0;  // of the Word in the target region; 8-byte aligned
  std::uint64_t value = 0;
};

/// Whether what arrives at a rank may wake its threads that sleep (RNDV-2006: selective interrupts;
/// InfiniBand's solicited events).
enum class Event : std::uint8_t {
  solicited,   // any that sleeps
  unsolicited  // only those that sleep with Attention::all
};

/// What ends a sleep.
enum class Attention : std::uint8_t {
  all,       // whatever arrives
  solicited  // of what arrives, what asks for it: a thread beside an application that computes
};

class Fabric;

/// Counts the operations that are over on this side. Lives at the caller until all are. One
/// Completion may collect many operations.
class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  /// Who gives up before everything is over (because a peer was lost) leaves nothing behind that
  /// would still count here or write to memory that was to be read into.
  inline ~Completion();

  // Whoever waits for it awaits Engine::completed(), whose outcome is that of the operations.

  bool over() const noexcept { return finished() == posted_; }
  std::uint64_t posted() const noexcept { return posted_; }
  std::uint64_t finished() const noexcept { return finished_.load(std::memory_order_acquire); }
  /// The first failure among those that are over.
  const Status& status() const noexcept { return status_; }

  // For fabrics.

  /// One more operation is under way.
  void post() noexcept { ++posted_; }
  /// The same for operations that outlive their calls: `fabric` knows them.
  void post(Fabric& fabric) noexcept {
    fabric_ = &fabric;
    ++posted_;
  }
  /// One is over. One thread at a time (the engine's lock).
  void finish(const Status& how) noexcept {
    if (!how.ok() && status_.ok()) [[unlikely]]
      status_ = how;
    finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  friend class Engine;
  friend struct Waiter;
  Word finished_{0};          // first: operations over; grows
  std::uint64_t posted_ = 0;  // operations posted; written by the poster
  Status status_;
  Fabric* fabric_ = nullptr;  // of operations that outlive their calls
};
static_assert(std::is_standard_layout_v<Completion>);

/// One place where a task waits for a Word. Linked into the engine's list while it waits; in
/// virtual time the fabric calls `ready` instead of being polled.
struct Waiter {
  const Word* word = nullptr;
  std::uint64_t value = 0;
  Task::Handle handle;
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  const void* owner = nullptr;  // the Team (or whoever) whose ranks this wait depends on
  std::int32_t peer = -1;       // job rank that will write the word, or -1: any of the owner's
  std::uint32_t span = 1;  // words from `word` on whose sum counts: for flags of which any may come
  std::uint32_t stride = 1;     // from one of them to the next, in words
  std::uint64_t vain_ns = 0;    // Engine's count of vain time when it was linked
  bool counts = false;          // `word` is of a Completion, whose status is the outcome
  bool asked = false;           // the task wants to know of a failure
  const Word* other = nullptr;  // if given: that it reaches `other_value` is enough
  std::uint64_t other_value = 0;
  Status outcome;  // set before it is resumed

  /// Of operations that are over.
  void take_status() noexcept {
    if (counts) outcome = reinterpret_cast<const Completion*>(word)->status_;
  }
  /// The task goes on, or ends with the outcome where that is a failure that it did not ask for.
  void resume() noexcept {
    if (outcome.ok() || asked) [[likely]] {
      handle.resume();
    } else {
      Task::fail(handle, outcome).resume();
    }
  }
  bool word_reached() const noexcept {
    std::uint64_t sum = word->load(std::memory_order_acquire);
    for (std::size_t i = 1; i < span; ++i)  // mostly none
      sum += word[i * stride].load(std::memory_order_acquire);
    return sum >= value;
  }
  bool reached() const noexcept {
    if (word_reached()) return true;
    return other != nullptr && other->load(std::memory_order_acquire) >= other_value;
  }
};

/// A team on which an operation has failed at one of its members: no further one can succeed, since
/// that member is out of step. Said where all members look, so that they fail alike.
struct Breakage {
  std::uint64_t team[2] = {0, 0};
  std::int32_t rank = -1;    // who is missing: a lost rank, or the one that failed; -1: not known
  std::int32_t teller = -1;  // who has noticed
  Code code = Code::internal;
  /// In place of one team: every team that `rank` is a member of; without a rank all teams.
  bool every_team = false;
};

/// CPU work that costs time in a simulation and is simply done in reality.
enum class Work : std::uint8_t { copy, reduce, match, interrupt, call };

/// What an implementation can do natively. Algorithms never look here; team and select do.
struct Traits {
  const char* name = "";
  bool virtual_time = false;    // time is simulated; waits go through watch()
  bool ordered_tail = false;    // data and tail travel in one native operation
  bool elided_payload = false;  // data is not carried (simulation at scale): contents are undefined
  std::size_t most_carried = ~std::size_t{0};  // larger data is only timed (simulation)
  std::size_t arena_scale =
      1;  // offset o of an arena is at base + o * arena_scale: without payload, the
          // arenas of many ranks lie interleaved, so that untouched words cost nothing
  bool user_memory = false;  // get/put reach any exposed memory without the peer's help
  bool scarce = false;       // a machine of the job has more ranks than processors; the same on all
  bool selective_events = false;  // sleepers for solicited events are left alone by others
  bool bypass = false;           // the network is driven past the kernel: copies cost as much as it
  std::size_t core_cache = 0;    // bytes of the largest cache that a core has alone; 0: not known
  bool keeps_evicted = true;     // the shared cache holds what a core's own gives up
  bool demotes = false;          // lines can be handed on to the shared cache (base/demote.hpp)
  std::size_t inline_bytes = 0;  // largest put that is copied before put() returns
  std::size_t datagram_bytes = 0;  // largest datagram; 0: none
};

class Datagrams;

/// What a fabric or network says of itself, for `tutti info`. Static strings.
struct FabricDescription {
  const char* name;
  const char* reach;  // whom it reaches, and by what
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const Traits& traits() const noexcept { return traits_; }

  // ---- memory ------------------------------------------------------------------------------

  /// Makes [base, base + bytes) reachable by peers until withdraw(). The memory stays the caller's.
  /// May register with a network: not for the small-message path unless traits().user_memory.
  virtual Status expose(void* base, std::size_t bytes, Region* out) noexcept = 0;
  /// Ends it. The caller must know that no peer still uses the region.
  virtual void withdraw(Region& region) noexcept = 0;

  /// The memory of this rank that was set up at creation, zeroed, already exposed. Where
  /// maps() is true of this rank a peer maps it. Physical memory is reserved by reserve().
  virtual Region& arena() noexcept = 0;
  /// The arena of a peer. The result stays valid as long as the fabric.
  virtual Status arena_of(std::int32_t peer, Remote* out) noexcept = 0;
  /// Backs [offset, offset + bytes) of the own arena with memory, so that using it cannot fail
  /// later (no SIGBUS), nor cost much the first time. Fails with no_memory. Idempotent.
  virtual Status reserve(std::size_t offset, std::size_t bytes) noexcept = 0;

  /// A Remote for a key received from `peer`. Cheap. Fails with truncated or invalid_argument on a
  /// key that cannot be one (keys carry a check, fabric/key.hpp), peer_lost when the peer is gone.
  virtual Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept = 0;

  /// True when loads and stores of this rank reach the arena of `peer` (same node).
  virtual bool maps(std::int32_t peer) const noexcept = 0;
  /// True when puts and gets of this rank reach `peer`: on this node, or over a network.
  virtual bool reaches(std::int32_t peer) const noexcept { return maps(peer); }
  /// The node of `peer`, from 0. Ranks of one node map each other. 0 for all where nodes are not
  /// told apart.
  virtual std::int32_t node_of(std::int32_t peer) const noexcept {
    static_cast<void>(peer);
    return 0;
  }

  /// Where `peer`, a rank of this node, runs: what it has said of itself when the job began, so
  /// that all ranks of the node know the same. Nothing where that is not told.
  virtual Locality locality_of(std::int32_t peer) const noexcept {
    static_cast<void>(peer);
    return {};
  }

  // ---- data --------------------------------------------------------------------------------

  /// One-sided write of `bytes` from `source` to `offset` of the remote region; with `tail` also
  /// the counter, visible no earlier than the data. bytes may be 0 (the tail alone). `completion`
  /// (may be nullptr): counts one more finished operation when `source` may be reused; that says
  /// nothing about the target. Out-of-range offsets fail with truncated before anything is written.
  /// Puts of one kind of event to one peer take effect in order: a tail is visible no earlier than
  /// the data of all those puts to that peer before it, whatever their regions. An unsolicited tail
  /// may be seen late by a rank that neither calls nor sleeps with Attention::all.
  virtual Status put(const Remote& target, std::size_t offset, const void* source,
                     std::size_t bytes, const Tail* tail, Completion* completion,
                     Event event = Event::solicited) noexcept = 0;

  /// One-sided read. `completion` is required; the data is in `destination` when it has counted.
  virtual Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
                     Completion* completion) noexcept = 0;

  /// Stores `value` to a Word in memory mapped from `peer` (or own exposed memory, peer == rank()),
  /// with release order. Does not wake: callers wake() when sleepers() says so.
  /// In virtual time the store becomes visible after the cost of a cache-line transfer.
  void signal(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
    if (traits_.virtual_time | intercepts_signals_) {
      signal_virtually(peer, word, value);
    } else {
      word.store(value, std::memory_order_release);
    }
  }

  /// Ends the operations that still count on `completion`: they will not touch it, nor what they
  /// were to read into, once this returns. Only where Completion::post() was given this fabric; may
  /// take as long as a peer takes to be lost.
  virtual void forget(Completion& completion) noexcept { static_cast<void>(completion); }

  /// Completes what can be completed: moves data, counts completions. Never blocks.
  virtual void progress() noexcept {}
  /// Peers will read memory of this process, which may not call for a while: where such reads are
  /// served in software, somebody looks after them from now on. Any thread.
  virtual void expect_reads() noexcept {}
  /// The process ends by exit(), which takes libraries down while other threads run: from now on
  /// only the calling thread uses those of a network, and for the others nothing moves there any
  /// more. Waits for whoever is inside, but not for long: the caller may have been interrupted
  /// there by a signal. Any thread, without a guard.
  virtual void leave_to_caller() noexcept {}

  // ---- waiting -----------------------------------------------------------------------------

  /// True when some rank that maps our memory may be asleep. One relaxed load; ordered after the
  /// caller's signal() by the sleeper's side (arm() runs an asymmetric barrier). Without such a
  /// barrier by reading with an addition of 0: either it comes after the sleeper's own in the
  /// word's order, and sees it, or the sleeper's comes after it, and sees the signal.
  bool sleepers() const noexcept {
    if (sleepers_ == nullptr) return false;
    if (adds_before_ring_) {
      if (sleepers_->fetch_add(0, std::memory_order_acq_rel) == 0) return false;
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order, too
      if (sleepers_->load(std::memory_order_relaxed) == 0) return false;
    }
    // Whoever sleeps often runs no barrier each time.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }
  /// Wakes the threads of `peer` that sleep with attention for it, after all that was put to it
  /// before has arrived; costs a load when none does on this node. A peer on another node is told
  /// of solicited events alone: what is put there unsolicited is seen by whoever sleeps for it. Any
  /// thread.
  virtual void wake(std::int32_t peer, Event event = Event::solicited) noexcept {
    static_cast<void>(peer);
    static_cast<void>(event);
  }

  static constexpr std::int32_t kAnybody = -1, kNeighbours = -2;

  /// As wake(), after a word of this rank that `peer` may read in place: a peer that sleeps for
  /// another rank's words alone is left alone.
  virtual void wake_reader(std::int32_t peer) noexcept { wake(peer); }
  /// Until the next call, what this rank sleeps for are words of `peer` (kAnybody, or
  /// kNeighbours: of ranks whose memory it maps). Only while none of its threads is armed.
  virtual void await_only(std::int32_t peer) noexcept { static_cast<void>(peer); }

  /// Announces that a thread of this rank is about to sleep. After arm() returns, any signal() or
  /// arriving put that it is to be woken for either is visible to a check made now, or will ring.
  /// Calls nest (progress thread and application). Returns the ticket for sleep().
  virtual std::uint32_t arm(Attention attention) noexcept {
    static_cast<void>(attention);
    return 0;
  }
  /// Sleeps in the kernel until rung since arm() gave `ticket`, or `timeout_ns` has passed. Only
  /// between arm and disarm, with the same attention; any thread, without the engine's lock.
  virtual void sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept {
    static_cast<void>(ticket);
    static_cast<void>(timeout_ns);
    static_cast<void>(attention);
  }
  virtual void disarm(Attention attention) noexcept { static_cast<void>(attention); }
  /// Says that this rank has not slept for a while: no provisions are made any more for a rank that
  /// sleeps often. Any thread.
  virtual void stays_awake() noexcept {}

  /// False when `peer` is known to have died or cannot be reached: every team that it is a member
  /// of is broken. May cost a system call.
  virtual bool alive(std::int32_t peer) noexcept {
    static_cast<void>(peer);
    return true;
  }
  /// Somebody waits for `peer` in particular: its health is worth asking it, and connecting to it,
  /// from now on.
  virtual void inquire(std::int32_t peer) noexcept { static_cast<void>(peer); }
  /// True when `peer` has left in good order: what it owed to others is done, and it will write no
  /// more words. Only a wait for a word of its own is then in vain. Costs a load.
  virtual bool left(std::int32_t peer) noexcept {
    static_cast<void>(peer);
    return false;
  }
  /// Breakages known on this node so far; only grows. One relaxed load, in the line of sleepers().
  std::uint64_t breakages() const noexcept {
    return breakages_ == nullptr ? 0 : breakages_->load(std::memory_order_relaxed);
  }
  /// The breakage of that number, from 0. False while it is being written. Any thread.
  virtual bool breakage(std::uint64_t number, Breakage* out) const noexcept {
    static_cast<void>(number);
    static_cast<void>(out);
    return false;
  }
  /// Says so to the ranks of this node, and to `members` (job ranks) on others. Wakes sleepers. A
  /// team that is known to be broken is not told again: what was said first counts.
  virtual void tell_broken(const Breakage& breakage, const std::int32_t* members,
                           int size) noexcept {
    static_cast<void>(breakage);
    static_cast<void>(members);
    static_cast<void>(size);
  }
  /// Nanoseconds since some fixed point: monotonic real time, or this rank's virtual time.
  virtual std::uint64_t now_ns() const noexcept = 0;

  // ---- virtual time (no effect in reality) ----------------------------------------------------

  /// Called by the engine when a task starts to wait, where traits().virtual_time: the fabric sets
  /// waiter.outcome and resumes it when the word has reached the value.
  virtual void watch(Waiter& waiter) noexcept { static_cast<void>(waiter); }
  /// Where traits().virtual_time: raises `clock`, a word of this rank, to `at_ns` when it is that
  /// late here, so that waits with a deadline end. `clock` lives as long as the fabric is driven.
  virtual void alarm(Word& clock, std::uint64_t at_ns) noexcept {
    static_cast<void>(clock);
    static_cast<void>(at_ns);
  }
  /// Charges CPU work to this rank's clock.
  void spend(Work work, std::size_t bytes) noexcept {
    if (traits_.virtual_time) spend_virtually(work, bytes);
  }

  /// Charges what it takes to read [begin, begin + bytes) of memory that another rank of the node
  /// has written.
  void look(const void* begin, std::size_t bytes) noexcept {
    if (traits_.virtual_time) look_virtually(begin, bytes);
  }

  /// This rank has written [begin, begin + bytes), which others may read.
  void wrote(const void* begin, std::size_t bytes) noexcept {
    if (traits_.virtual_time) wrote_virtually(begin, bytes);
  }

  // ---- datagrams -----------------------------------------------------------------------------

  /// Unreliable multicast of this fabric, or nullptr.
  virtual Datagrams* datagrams() noexcept { return nullptr; }

 protected:
  Fabric(int rank, int size) noexcept : rank_(rank), size_(size) {}
  /// For decorators: what the inline functions above need to know of the fabric inside.
  void mirror(const Fabric& inner) noexcept {
    traits_ = inner.traits_;
    sleepers_ = inner.sleepers_;
    breakages_ = inner.breakages_;
    adds_before_ring_ = inner.adds_before_ring_;
    intercepts_signals_ = inner.intercepts_signals_;
  }
  virtual void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
    static_cast<void>(peer);
    word.store(value, std::memory_order_release);
  }
  virtual void spend_virtually(Work work, std::size_t bytes) noexcept {
    static_cast<void>(work);
    static_cast<void>(bytes);
  }
  virtual void wrote_virtually(const void* begin, std::size_t bytes) noexcept {
    static_cast<void>(begin);
    static_cast<void>(bytes);
  }
  virtual void look_virtually(const void* begin, std::size_t bytes) noexcept {
    static_cast<void>(begin);
    static_cast<void>(bytes);
  }

  int rank_;
  int size_;
  Traits traits_;
  // Number of ranks of the node that are armed. The one Word that many write (by fetch_add): each
  // rank when it arms and disarms. Read before ringing.
  Word* sleepers_ = nullptr;
  const Word* breakages_ = nullptr;  // of the node; nullptr: nobody tells of them
  bool adds_before_ring_ = false;    // no asymmetric barrier on this system
  bool intercepts_signals_ = false;  // signal() goes through signal_virtually() in real time too
};

inline Completion::~Completion() {
  if (fabric_ != nullptr && !over()) fabric_->forget(*this);
}

/// Unreliable, unordered messages of at most traits().datagram_bytes to a group, which may be lost,
/// doubled and overtaken, but arrive whole. Same rules of threads and ownership as Fabric.
class Datagrams {
 public:
  /// What happened to the datagrams of a group at this rank, for reports and tests.
  struct Counts {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;  // taken by receive()
    std::uint64_t dropped = 0;   // lost, for want of a receive or of receive()'s room too
    std::uint64_t foreign = 0;   // not by a member: the keyed checksum is wrong
  };

  virtual ~Datagrams() = default;
  /// Joins the group of that 128-bit id (random per communicator, MCAST-2007). `depth`: receives to
  /// pre-post, at least 1 (MCAST-2007: default 5); more may be kept. What comes while none is
  /// posted is lost. `*out` names the group here, until leave(). May enter the kernel. Fails with
  /// invalid_argument for a group that this rank is in already, no_memory or unsupported where the
  /// system refuses.
  virtual Status join(const std::uint64_t id[2], int depth, int* out) noexcept = 0;
  /// What has not been taken by receive() is lost. Ends nothing where there is no such group.
  virtual void leave(int group) noexcept = 0;
  /// Sends to all members but this rank. The bytes are copied. Fails with invalid_argument where
  /// there is no such group, and truncated for more than a datagram holds; success promises
  /// nothing. Paces itself where receivers would be overrun, so may take the time of that.
  virtual Status cast(int group, const void* data, std::size_t bytes) noexcept = 0;
  /// Takes one received datagram; returns its size, or 0 when there is none (or no such group). A
  /// datagram longer than `capacity` is dropped and counted. Never blocks.
  virtual std::size_t receive(int group, void* out, std::size_t capacity) noexcept = 0;
  /// As receive(), but the datagram is read where it is: valid until the next call for this group.
  /// nullptr when there is none.
  virtual const std::byte* view(int group, std::size_t* bytes) noexcept = 0;
  /// From now on at least `depth` receives are to be posted, where the system allows that many. May
  /// enter the kernel.
  virtual void deepen(int group, int depth) noexcept = 0;
  /// How many of the longest datagrams are kept for certain until they are taken.
  virtual std::size_t room(int group) const noexcept = 0;
  /// A Word that grows after datagrams have arrived: who reads it, finds nothing more by
  /// receive(), and waits until it is larger than what was read, misses none. Valid until leave().
  virtual const Word& arrivals(int group) const noexcept = 0;
  virtual Counts counts(int group) const noexcept = 0;
};

}  // namespace tutti
