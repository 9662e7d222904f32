// The simulated machine: nodes with NICs, the network between them, and the clock.
//
// One thread runs everything. A rank that is resumed runs ahead of the event clock by the processor
// time that it spends, until it waits; what it posts enters the machine at its own time, so that
// every server (NIC, link) sees messages in the order of their times. What a rank sees of other
// ranks' stores is never later than its own time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "fabric/fabric.hpp"
#include "fabric/sim/datagrams.hpp"
#include "fabric/sim/event_queue.hpp"
#include "fabric/sim/large_memory.hpp"
#include "fabric/sim/lines.hpp"
#include "fabric/sim/network.hpp"
#include "fabric/sim/noise.hpp"

namespace tutti::sim {

class SimFabric;

/// A message that has become visible, for timelines and for other simulators.
struct Delivery {
  std::int32_t from, to;
  std::uint64_t bytes;
  Time posted, visible;
};

struct WorldSpec {
  int nodes = 1;
  int ranks_per_node = 1;  // ranks of a node are consecutive and map each other's arenas
  Network network;
  bool elided = false;  // no payload: nothing is copied, only counters exist
  std::size_t arena_bytes = std::size_t{1}
                            << 26;  // address space of a rank's arena; memory as it is touched
  Noise noise{};
  bool trace = false;  // remember deliveries
  /// Larger puts and gets are not carried, only timed: what arrives is undefined. Their headers and
  /// keys are, where `elided` would leave them out too.
  std::size_t most_carried = ~std::size_t{0};
  bool scarce = false, user_memory = true;  // Traits, which change no time
  bool scattered = false;  // the ranks of a node over its packages, where the profile has some
};

/// What has passed the link between a node and its switch, as transmitted.
struct LinkBytes {
  std::uint64_t sent = 0;      // by the node
  std::uint64_t received = 0;  // by it; what is lost on this link is not counted
};

/// What a message needs only where bytes are carried. From a pool.
struct Baggage {
  const std::byte* source = nullptr;  // until the NIC has read it
  std::byte* destination = nullptr;
  std::byte* staged = nullptr;  // the data as the NIC has read it
  Baggage* next_free = nullptr;
};

/// A message on its way, or a store to shared memory: one cache line, since a million of them may
/// be under way. From a pool.
struct alignas(kCacheLine) Message {
  enum class Kind : std::uint8_t { put, request, response, store, alarm, datagram };
  Kind kind = Kind::put;
  bool rings = false;  // interrupts a receiver that has selective interrupts on
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::size_t bytes = 0;  // of data
  Word* word = nullptr;   // the counter behind the data, or nullptr
  union {
    std::uint64_t value = 0;
    Flight* flight;  // of a datagram
  };
  union {
    Completion* completion = nullptr;  // still to be counted
    Message* next_free;
  };
  Time posted = 0;  // by the processor
  Baggage* baggage = nullptr;
};
static_assert(sizeof(Message) == kCacheLine);

/// Objects that are taken and given back in any order; memory comes in slabs. `T::next_free` links
/// the free ones. Zeroed memory is a T.
template <class T>
class Pool {
 public:
  T* take() {
    if (T* const object = free_; object != nullptr) {
      free_ = object->next_free;
      object->next_free = nullptr;
      return object;
    }
    if (left_ == 0) grow();
    --left_;
    return unused_++;
  }
  void give(T* object) noexcept {
    object->next_free = free_;
    free_ = object;
  }

 private:
  void grow() {
    slabs_.emplace_back();
    if (!slabs_.back().allocate(next_slab_ * sizeof(T), true)) throw std::bad_alloc();
    unused_ = reinterpret_cast<T*>(slabs_.back().data());
    left_ = next_slab_;
    if (next_slab_ < kLargestSlab) next_slab_ *= 2;
  }

  static constexpr std::size_t kLargestSlab = 1 << 18;
  std::size_t next_slab_ = 64;
  T* free_ = nullptr;
  T* unused_ = nullptr;  // of the newest slab
  std::size_t left_ = 0;
  std::vector<LargeMemory> slabs_;
};

class World {
 public:
  static Status create(const WorldSpec& spec, std::unique_ptr<World>* out, std::string* message);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int ranks() const noexcept { return ranks_; }
  const WorldSpec& spec() const noexcept { return spec_; }
  const Network& network() const noexcept { return spec_.network; }
  SimFabric& fabric(int rank) noexcept;

  /// Processes events until there are none, or until nothing but deadlines pass any more: ranks try
  /// again and again, and nothing arrives. Tasks that wait are resumed as their words are reached.
  void run();
  /// Who still waits for whom after run(), in a line: "2 of 4 ranks wait for ever: ...".
  std::string who_waits() const;
  /// Processes one event. False when there was none.
  bool step();
  /// Events processed so far.
  std::uint64_t events() const noexcept { return events_; }
  Time now() const noexcept { return now_; }

  /// Resumes the rank's tasks whose words have been reached by what another of its tasks did: to be
  /// called after a task has been started from outside.
  void settle(int rank);
  /// What the ranks of a node have read of each other's memory, where the profile describes it.
  Lines& lines() noexcept { return lines_; }
  Groups& groups() noexcept { return groups_; }
  /// Puts between nodes, in the order of their arrival, where WorldSpec::trace was set.
  const std::vector<Delivery>& deliveries() const noexcept { return deliveries_; }

  /// Since the world was created.
  LinkBytes link_bytes(int node) const noexcept {
    return nics_[static_cast<std::size_t>(node)].bytes;
  }

  /// The rank dies: operations towards it fail at once; waits for it end with peer_lost when the
  /// others notice, 100 ms later. What it has sent arrives.
  void lose(int rank);
  /// False as long as nobody has been lost.
  bool lost(int rank) const noexcept { return anybody_lost_ && is_lost(rank); }

  /// Where else a rank's events find what they touch: `bytes` at `begin` + rank * `stride`, to be
  /// asked for ahead of time.
  void touches(const void* begin, std::size_t stride, std::size_t bytes) {
    touched_.push_back({static_cast<const std::byte*>(begin), stride, bytes});
  }

  /// Whether a wait with this Waiter::owner depends on the lost rank. Set by whoever owns the
  /// engines; without it only waits that name the rank as their peer end.
  std::function<bool(const void* owner, int lost)> on_lost;

 private:
  friend class SimFabric;
  friend class SimDatagrams;
  enum Step : std::uintptr_t {
    kPost,
    kRead,
    kUp,
    kDown,
    kArrive,
    kTurn,
    kVisible,
    kLost,
    kLeaf,
    kStore,
    kCopied,
    kLook,
    kWrote
  };

  /// Servers of a node's NIC: when each is free again.
  struct Nic {
    Time send_nic = 0;
    Time send_link = 0;
    Time receive_link = 0;
    Time receive_nic = 0;
    LinkBytes bytes;
  };

  explicit World(const WorldSpec& spec);
  Status map_arenas(std::string* message);

  int node_of(int rank) const noexcept {
    return spec_.ranks_per_node == 1 ? rank : rank / spec_.ranks_per_node;
  }
  int leaf_of(int node) const noexcept { return node / spec_.network.leaf_nodes; }
  bool in_arenas(const void* address) const noexcept {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= pool_ && byte < pool_ + pool_bytes_;
  }
  std::byte* arena_base(int rank) const noexcept;

  Message* make() { return messages_.take(); }
  void give(Message* message) noexcept;
  /// Bytes as transmitted: a request carries none, a counter travels behind the data.
  std::size_t wire_bytes(const Message& message) const noexcept {
    if (message.kind == Message::Kind::request) return 0;
    const bool counted = message.kind == Message::Kind::put && message.word != nullptr;
    return message.bytes + (counted ? spec_.network.counter_bytes : 0);
  }
  bool is_carried(std::size_t bytes) const noexcept {
    return bytes != 0 && !spec_.elided && bytes <= spec_.most_carried;
  }
  /// Takes `bytes` at `source` along: as the NIC finds them when it reads them. `counter`: also
  /// without payload.
  void load(Message& message, const void* source, void* destination, bool counter = false) {
    if (!(counter || is_carried(message.bytes))) return;
    message.baggage = baggage_.take();
    message.baggage->source = static_cast<const std::byte*>(source);
    message.baggage->destination = static_cast<std::byte*>(destination);
  }
  void read_now(Message& message);
  void at(Time time, Message* message, Step step) {
    queue_.push(time, reinterpret_cast<std::uintptr_t>(message) | step);
  }
  bool is_lost(int rank) const noexcept;
  void prefetch_ahead() noexcept;
  /// The sender's processor hands a message to its NIC at `time`.
  void post(Message* message, Time time);
  void send(Message* message, Time time);
  void read_by_nic(Message* message, Time time);
  void go_up(Message* message, Time time);
  void go_down(Message* message, Time time);
  void arrive(Message* message, Time time);
  void turn_around(Message* message, Time time);
  void make_visible(Message* message, Time time);
  void cast(int from, Flight* flight, Time time);
  Message* copy_of(const Message& message, int to);
  void drop(Message* message) noexcept;
  void spread(Message* message, Time time);
  void spread_to_leaves(Message* message, Time time);
  void spread_in_leaf(Message* message, Time time);
  void reach(Message* message, Time time);
  void deliver(Message* message, Time time);
  bool chance(double probability) noexcept;
  Datagram damaged(const Datagram& datagram);
  void notice_loss(Message* message, Time time);
  /// Resumes all tasks of the rank's node whose words are reached.
  void settle_node_of(int rank, Time time);
  void arrive_copy(Message* message, Time time);

  WorldSpec spec_;
  int ranks_;
  LargeMemory arenas_, fabric_memory_;
  std::byte* pool_ = nullptr;  // all arenas
  std::size_t pool_bytes_ = 0;
  std::size_t arena_scale_ = 1;
  SimFabric* fabrics_ = nullptr;  // by rank
  int constructed_ = 0;
  bool anybody_lost_ = false;
  struct Touched {
    const std::byte* begin;
    std::size_t stride, bytes;
  };
  std::vector<Touched> touched_;
  std::vector<Nic> nics_;  // by node
  Lines lines_;
  std::vector<Time> up_,
      down_;  // fat tree: when each up-link and down-link of each leaf is free again
  EventQueue<std::uintptr_t> queue_;
  Time now_ = 0;
  Groups groups_;
  std::vector<Delivery> deliveries_;
  std::uint64_t draws_ = 0;  // random numbers drawn so far
  std::uint64_t events_ = 0;
  std::uint64_t fruitless_ = 0;  // deadlines that passed since something else became visible
  Pool<Message> messages_;
  Pool<Baggage> baggage_;
};

}  // namespace tutti::sim
