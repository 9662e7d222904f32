// A network whose device or provider takes operations one by one and completes them later. Here is
// what such networks have in common: operations and their memory, queues per peer of what cannot be
// taken yet, what is over, notices, and forgetting. A network adds how an operation is posted, and
// how completions are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fabric/local/local_memory.hpp"
#include "fabric/network.hpp"

namespace tutti {

class QueuedNetwork : public Network {
 public:
  Status meet(const NetworkAddress* all, int size, int rank, const Secret& secret) noexcept final;
  Status expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept final;
  void withdraw(const NetworkMemory& memory) noexcept final;
  Status put(const NetworkTarget& target, const void* source, std::size_t bytes,
             const NetworkTarget* counter, std::uint64_t value, Completion* completion,
             Event event) noexcept final;
  Status get(const NetworkTarget& source, void* destination, std::size_t bytes,
             Completion* completion) noexcept final;
  Status notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept final;
  Status notify_last(const NetworkTarget& anywhere, std::uint32_t notice) noexcept final;
  void ring(const NetworkTarget& anywhere) noexcept final;
  Moved progress(bool wait) noexcept final;
  std::size_t finished(NetworkFinished* out, std::size_t most) noexcept final;
  std::size_t notices(std::uint32_t* out, std::size_t most) noexcept final;
  std::size_t forget(Completion* completion) noexcept final;
  std::size_t pending() noexcept final;
  void drop(std::int32_t peer) noexcept final;
  int sleep_on(Attention attention) noexcept final;
  bool must_hear_all() noexcept final;
  bool blocked() noexcept final;
  NetworkUse use() noexcept final;
  void leave_to_caller() noexcept final;

 protected:
  enum class Kind : std::uint8_t { put, get, notice };

  /// An operation from its posting until the network has completed all its parts.
  struct Operation {
    void* context[8] = {};      // the network's own, first
    std::uint64_t token = 0;    // of this object's own memory, where that is registered
    Operation* next = nullptr;  // in its peer's queue or in the free list
    Completion* completion = nullptr;
    // Of a read that nobody waits for any more, but that still writes.
    Completion* abandoned = nullptr;
    std::byte* local = nullptr;  // source or destination
    std::size_t bytes = 0;
    std::size_t posted = 0;  // bytes that the network has taken
    NetworkTarget target;
    NetworkTarget counter;    // of a notice: the target
    std::uint64_t value = 0;  // of the counter; a notice
    std::unique_ptr<std::byte[]> copy;
    LocalMemory::Use memory;  // how the network reaches `local`
    std::uint32_t parts = 0;  // that the network has taken and not completed
    Kind kind = Kind::put;
    bool counts = false;  // has a counter, or is a notice, that the network has not taken yet
    bool queued = false;
    Event event = Event::solicited;
    Event way = Event::solicited;  // unsolicited ones may have a way of their own
    Status status;
  };
  enum class Posted : std::uint8_t {
    all,
    no_room,  // of this rank's own: what there is comes back by itself
    blocked,  // the peer takes nothing yet
    failed    // the operation's status says why
  };
  /// What waits for the network to take it, in order.
  struct Queue {
    Operation* first = nullptr;
    Operation* last = nullptr;
    std::uint64_t blocked_since_ns = 0;
    bool listed = false;   // in blocked_
    bool reached = false;  // an operation has succeeded
  };

  /// Remote data that comes with a counter; notices have this bit clear.
  static constexpr std::uint32_t kArrival = 0x8000'0000;
  static constexpr std::uint32_t arrival_of(Event event) noexcept {
    return kArrival | (event == Event::unsolicited ? 1u : 0u);
  }
  /// A notice that says no more than that its sender rings; with the sender's rank.
  static constexpr std::uint32_t kBell = 0x4000'0000;
  /// A notice that comes on both ways, and counts when it has.
  static constexpr std::uint32_t kLast = 0x2000'0000;

  // ---- what a network adds; all under the mutex, between start() and stop()

  /// `secret_`, `rank_`, `addresses_` are set.
  virtual Status prepare_for_peers() noexcept = 0;
  /// Registers memory for peers, and says in `*out` by what address and key they name it.
  virtual Status register_for_peers(void* base, std::size_t bytes, Registration* region,
                                    NetworkMemory* out) noexcept = 0;
  /// Sees to it that the peer can be reached sooner or later. Fails where that is known to be in
  /// vain.
  virtual Status reach(std::int32_t peer) noexcept = 0;
  /// Gives the network what it has not taken of an operation yet; counts its parts.
  virtual Posted post(Operation& operation) noexcept = 0;
  /// Reads what has completed: part_over(), notices_. `surely`: looks also where it looks rarely.
  virtual Moved poll(bool surely) noexcept = 0;
  /// Whether a peer that takes nothing is still waited for.
  virtual bool patient(std::int32_t peer, const Queue& queue, std::uint64_t now) noexcept = 0;
  /// Nothing goes to this peer any more: fails what waits for it.
  virtual void give_up(std::int32_t peer, const char* why) noexcept = 0;
  /// As Network::sleep_on() and must_hear_all().
  virtual int arm(Attention attention) noexcept = 0;
  virtual bool needs_all() const noexcept = 0;
  /// Whether unsolicited operations go to this peer on a way of their own, which a bell must take
  /// too. Else they are in order with all others.
  virtual bool parted(std::int32_t peer) const noexcept {
    static_cast<void>(peer);
    return false;
  }
  /// A bell has arrived on the way of events of that kind.
  virtual void take_bell(std::uint32_t sender, Event way) noexcept {
    static_cast<void>(sender);
    static_cast<void>(way);
  }

  // ---- what it uses for that

  /// Where `registers_sources_`, so that post() finds it in `operation.memory`: all, no_room or
  /// failed.
  Posted find_memory(Operation& operation) noexcept;
  /// One part of an operation is over.
  void part_over(Operation& operation, const Status& status) noexcept;
  void fail_queues(std::int32_t peer, const char* why) noexcept;
  /// Operations posted and not over; and those on the way of the unsolicited ones.
  bool anything_pending() const noexcept { return pending_ != 0; }
  bool unsolicited_pending() const noexcept { return unsolicited_pending_ != 0; }
  /// Operations may come from now on.
  void start(Registrar* registrar, double timeout_s) noexcept;
  /// None any more.
  void stop() noexcept { open_ = false; }
  /// Whether the caller may call the network's library. Under the mutex.
  bool usable() const noexcept { return open_ && !left_to_another(); }
  bool left_to_another() const noexcept {
    return keeper_ != std::thread::id() && keeper_ != std::this_thread::get_id();
  }
  /// Gives back what is registered. The network has no operation any more.
  void close_memory() noexcept;

  static std::uint64_t now_ns() noexcept;
  static Status no_registration() noexcept;

  std::mutex mutex_;  // of everything below, and of what a network adds
  bool open_ = false;
  std::thread::id keeper_;             // the one thread that may still use it; none: all may
  bool registers_sources_ = true;      // local memory must be registered, and named
  bool registers_operations_ = false;  // also that of the operations: counters are written from it
  std::uint64_t timeout_ns_ = 0;
  LocalMemory memory_;
  std::vector<NetworkAddress> addresses_;
  std::int32_t rank_ = -1;
  Secret secret_;
  static void add(Moved what, Moved* moved) noexcept { *moved = what > *moved ? what : *moved; }

  std::deque<NetworkFinished> finished_;
  std::deque<std::uint32_t> notices_;
  NetworkUse use_;

 private:
  struct Slab {
    static constexpr std::size_t kOperations = 64;
    std::unique_ptr<Operation[]> operations;
    Registration registration;
  };

  bool add_slab() noexcept;
  Operation* make(Kind kind, const NetworkTarget& target, Completion* completion) noexcept;
  void give_back(Operation& operation) noexcept;
  Status submit(Operation& operation) noexcept;
  void enqueue(Operation& operation) noexcept;
  void take_first(Queue& queue) noexcept;
  void end(Operation& operation) noexcept;
  Status notify(const NetworkTarget& anywhere, std::uint32_t notice, Event event) noexcept;
  static std::size_t queue_number(std::int32_t peer, Event way) noexcept {
    return 2 * static_cast<std::size_t>(peer) + (way == Event::unsolicited ? 1 : 0);
  }
  std::size_t queue_number(const Operation& operation) const noexcept {
    return queue_number(operation.target.peer, operation.way);
  }
  Queue& queue_of(const Operation& operation) noexcept { return queues_[queue_number(operation)]; }
  bool retry(std::size_t number, std::uint64_t now) noexcept;
  void retry_all() noexcept;

  Registrar* registrar_ = nullptr;
  std::vector<Queue> queues_;         // two for each peer, one for each way
  std::vector<std::size_t> blocked_;  // numbers of those that are not empty
  Operation* free_ = nullptr;
  std::vector<Slab> slabs_;
  std::size_t pending_ = 0, unsolicited_pending_ = 0;
};

}  // namespace tutti
