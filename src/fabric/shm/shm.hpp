// The shared-memory fabric: ranks of one node, as processes or as threads of one process.
//
// Arenas are mapped by all, so put and get to them are copies, and the counter behind the data is a
// release store after the copy. Other exposed memory is reached by cross-memory attach
// (process_vm_readv/writev) where the kernel permits it, or directly when ranks are threads.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/fabric.hpp"
#include "fabric/secret/secret.hpp"
#include "fabric/shm/meeting.hpp"
#include "fabric/shm/segment.hpp"
#include "topo/locality.hpp"

namespace tutti::shm {

/// Kinds of keys: words[1] is an offset or an address, words[2] the length, words[3] the owner's
/// rank.
inline constexpr std::uint32_t kArenaKey = 0x6172656e;
inline constexpr std::uint32_t kUserKey = 0x75736572;

/// What a rank tells the others about itself before they connect.
struct Introduction {
  std::uint64_t version;  // hash of tutti's version and of the layout of the segment
  std::uint64_t node;     // equal for ranks that may be on one node
  std::uint64_t machine;  // equal for ranks that share cores, on one node or on several in a box
  std::uint64_t name;     // of the node, as TUTTI_NODE has it
  std::uint64_t processes, users;  // namespaces: whose pids mean the same; of what privileges count
  std::uint64_t arena_bytes;
  std::uint64_t probe;       // address of a word for the trial of cross-memory attach
  std::uint64_t cpus[16];    // affinity mask
  Locality locality;         // what that says of where it runs
  std::uint32_t core_limit;  // by cgroup and affinity
  std::int32_t pid;
  Secret secret;  // the first rank's is the job's
  Meeting::Name listens_at;
  std::uint8_t barrier;  // a sleeper's works only on signallers that are registered for it
  std::uint8_t code;     // of what it has done so far
};

/// What ranks of one machine do without, for one line that says so. The same on all ranks.
struct Losses {
  std::int32_t separated = -1, from = -1;  // two ranks that share no memory; -1: none
  std::int32_t without_cma = -1;           // a rank that may not reach the memory of its neighbour
  bool users = false, processes = false;   // which are in namespaces of their own
};

class ShmFabric final : public Fabric {
 public:
  ~ShmFabric() override;

  /// One process per rank. Collective over the bootstrap. Ranks of other nodes are not reachable.
  /// Where there are several nodes, every rank gets a failure when any has one. On one node a rank
  /// may fail alone, and others may still join: before it is used the ranks must agree(). `ready`:
  /// what this rank brings along; a failure is one on all.
  static Status connect(Bootstrap& bootstrap, const Settings& settings,
                        std::unique_ptr<ShmFabric>* out, Status ready = Status::success());

  /// All ranks as threads of this process: one fabric for each. `(*out)[i]` belongs to rank i's
  /// thread.
  static Status create_threads(int ranks, const Settings& settings,
                               std::vector<std::unique_ptr<ShmFabric>>* out);

  static constexpr FabricDescription describe() noexcept {
    return {"shm", "ranks of one node, by shared memory and cross-memory attach"};
  }

  /// Job ranks on this node, ascending.
  const std::vector<std::int32_t>& neighbours() const noexcept { return neighbours_; }
  /// Cores that the ranks of this machine may use together, and how many ranks they are: those of
  /// this node, and of other nodes of the same machine (containers, TUTTI_NODE).
  int node_cores() const noexcept { return node_cores_; }
  int machine_ranks() const noexcept { return machine_ranks_; }
  /// The job's, for what else has to tell its ranks from strangers.
  const Secret& secret() const noexcept { return secret_; }
  const Losses& losses() const noexcept { return losses_; }
  /// False where the process numbers of a neighbour mean others here (a pid namespace of its own).
  bool shares_processes(std::int32_t peer) const noexcept {
    const int local = local_index(peer);
    return local >= 0 && (threads_ || shares_processes_[static_cast<std::size_t>(local)] != 0);
  }
  /// The records of this node's ranks, in the order of neighbours(), mapped for the caller
  /// (Segment::map_records), and which of them is this rank's.
  std::byte* map_records() const noexcept { return segment_->map_records(); }
  /// Of the segment; the fabric's.
  int descriptor() const noexcept { return segment_->descriptor(); }
  /// Segment::back_record of this rank's.
  bool back_record() const noexcept { return segment_->back_record(local_rank()); }
  int local_rank() const noexcept { return local_; }
  /// Ends this rank for its peers as the death of its process would; for ranks that are threads.
  void die() noexcept { go(kDied); }

  /// Descriptors to which this rank writes when it rings neighbours that watch_doorbell(); by their
  /// place in neighbours(). Given once, by all ranks of a node or by none; they stay the caller's.
  /// Until then nobody may watch.
  void adopt_doorbells(std::vector<int> descriptors) noexcept {
    doorbells_ = std::move(descriptors);
  }
  /// In place of sleep(), for a thread that sleeps on descriptors of its own, its doorbell among
  /// them: false when it has been rung since arm() gave `ticket`, or another thread of this rank
  /// does so already. True: until unwatch_doorbell() whoever rings this rank writes to its
  /// doorbell.
  bool watch_doorbell(std::uint32_t ticket) noexcept;
  void unwatch_doorbell() noexcept { slot_->watching.store(0, std::memory_order_release); }
  /// Threads of this rank that are armed.
  std::uint32_t armed() const noexcept { return slot_->armed.load(std::memory_order_relaxed); }
  /// From now on signallers look for sleepers with an addition instead of sleepers interrupting
  /// their processors. By all ranks of a node or by none, before anybody sleeps.
  void add_before_wake() noexcept { use_barrier(false); }

  /// A rank of another node is lost: says so to the ranks of this node / what they have said. Any
  /// thread.
  void tell_lost(std::int32_t peer) noexcept;
  template <class Function>
  void lost_elsewhere(Function function) const noexcept {
    const NodeHeader& header = segment_->header();
    const std::uint32_t count =
        std::min(header.lost_count.load(std::memory_order_acquire), kLostPlaces);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (const std::int32_t peer = header.lost[i].load(std::memory_order_acquire); peer != 0)
        function(peer - 1);
    }
  }

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  void withdraw(Region& region) noexcept override;
  Region& arena() noexcept override { return arena_; }
  Status arena_of(std::int32_t peer, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override;
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  bool maps(std::int32_t peer) const noexcept override { return local_index(peer) >= 0; }
  Locality locality_of(std::int32_t peer) const noexcept override {
    const int local = local_index(peer);
    return local >= 0 ? localities_[static_cast<std::size_t>(local)] : Locality{};
  }

  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;

  void wake(std::int32_t peer, Event event) noexcept override;
  void wake_reader(std::int32_t peer) noexcept override;
  /// As wake(), after something of another node has come to this rank: a neighbour that sleeps for
  /// words of this node's ranks alone is left alone.
  void wake_for_arrival(std::int32_t peer) noexcept;
  void await_only(std::int32_t peer) noexcept override {
    slot_->awaited.store(static_cast<std::uint32_t>(peer + 1), std::memory_order_relaxed);
  }
  std::uint32_t arm(Attention attention) noexcept override;
  void sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept override;
  void disarm(Attention attention) noexcept override;
  void stays_awake() noexcept override;
  bool alive(std::int32_t peer) noexcept override;
  bool left(std::int32_t peer) noexcept override;
  bool breakage(std::uint64_t number, Breakage* out) const noexcept override;
  /// To the ranks of this node.
  void tell_broken(const Breakage& breakage, const std::int32_t* members,
                   int size) noexcept override;
  std::uint64_t now_ns() const noexcept override;

 private:
  ShmFabric(int rank, int size) noexcept : Fabric(rank, size) {}
  static std::int32_t find_separated(const std::vector<Introduction>& all,
                                     const std::vector<std::int32_t>& leaders,
                                     std::int32_t* other) noexcept;
  Status find_neighbours(Bootstrap& bootstrap, Meeting& meeting, const Settings& settings,
                         const std::vector<Introduction>& all);
  Status find_localities(const Settings& settings, const std::vector<Introduction>& all);
  Status join_segment(const Settings& settings, Meeting& meeting);
  void note_lost_cma(const std::vector<Introduction>& all, std::size_t rank) noexcept;
  int local_index(std::int32_t peer) const noexcept {
    return peer >= 0 && peer < size_ ? local_of_[static_cast<std::size_t>(peer)] : -1;
  }
  /// Sleepers run a barrier on the signallers' behalf. All ranks of the node or none.
  void use_barrier(bool usable) noexcept { adds_before_ring_ = !usable; }
  bool sleeps_often() noexcept;
  void announce_sleep() noexcept;
  /// Completes the status of a cross-memory copy and remembers a peer that has ended.
  Status cross(Status status, std::int32_t peer) noexcept;
  void attach_segment(std::shared_ptr<Segment> segment, int local) noexcept;
  void go(std::uint32_t how) noexcept;
  Status check_present(std::int32_t peer) const noexcept;
  Status check_range(const Remote& remote, std::size_t offset, std::size_t bytes) const noexcept;

  std::shared_ptr<Segment> segment_;  // shared only by thread ranks
  int local_ = 0;                     // index of this rank on its node
  bool threads_ = false;              // ranks are threads: all memory is mapped
  int node_cores_ = 1;
  int machine_ranks_ = 1;
  std::vector<std::int32_t> neighbours_;
  std::vector<std::int32_t> local_of_;  // by job rank: index on this node, or -1
  Region arena_;
  NodeSlot* slot_ = nullptr;
  std::atomic<bool> counted_{false};             // among the sleepers, for good, as it sleeps often
  std::atomic<bool> known_{false};               // the same, and all signallers know
  std::atomic<std::uint64_t> slept_ns_{0};       // when it was armed last
  std::atomic<std::uint32_t> sleeps_in_row_{0};  // one soon after the other
  std::vector<Locality> localities_;             // by local index
  std::vector<int> doorbells_;                   // by local index
  std::vector<std::uint8_t> shares_processes_;   // by local index
  Secret secret_;
  Losses losses_;
};

// ---- connect.cpp

/// The identity of the machine: its boot id.
std::uint64_t machine_identity() noexcept;
/// The identity of this node as seen from here: the machine, the network namespace, and the name
/// that TUTTI_NODE gives it. Equal for ranks that may be on one node; whether they are, connect()
/// finds out.
std::uint64_t node_identity(const std::string& name) noexcept;
/// Registers this process for the barrier that sleepers run on the signallers' behalf; false where
/// it is missing.
bool register_barrier() noexcept;

// ---- cma.cpp

/// Copies between this process and the memory of another. Partial transfers are continued.
Status cma_read(std::int32_t pid, const void* remote, void* local, std::size_t bytes) noexcept;
Status cma_write(std::int32_t pid, void* remote, const void* local, std::size_t bytes) noexcept;

/// When the process `pid` started, in clock ticks since boot; 0 when there is no such process.
std::uint64_t process_start_time(std::int32_t pid) noexcept;

}  // namespace tutti::shm
