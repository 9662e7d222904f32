// The fabric of a job on several nodes: shared memory within the node, a network between nodes.
//
// One arena per rank: the shared one is registered with the network as well, so that what a remote
// rank puts lands in memory that the ranks of the node map (ALLGATHER-2006 needs that).
//
// A thread of its own looks after the network while the application computes: networks in
// software move nothing by themselves, so a rank's reads would wait for the target's next call.
// Whoever sleeps in here sleeps on the network's descriptor itself: where processors are scarce,
// being woken by another thread takes longer than what it was woken for.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/settings.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/fabric.hpp"
#include "fabric/network.hpp"
#include "fabric/nodes/lifelines.hpp"
#include "fabric/nodes/parts.hpp"
#include "fabric/shm/shm.hpp"

namespace tutti::nodes {

class NodesFabric final : public Fabric {
 public:
  ~NodesFabric() override;

  /// Collective over the bootstrap. Takes `shm` and `network` (which this rank has opened) when it
  /// succeeds. Every rank gets a failure when any rank has one; `*message` says in one line what is
  /// wrong here.
  static Status connect(Bootstrap& bootstrap, const Settings& settings,
                        std::unique_ptr<shm::ShmFabric>* shm, std::unique_ptr<Network> network,
                        std::unique_ptr<NodesFabric>* out, std::string* message);

  int nodes() const noexcept { return static_cast<int>(names_.size()); }
  Network& network() noexcept { return *network_; }
  /// What a rank keeps for each rank of the job, connected or not, besides its network's own state.
  static constexpr std::size_t bytes_per_rank() noexcept {
    return sizeof(Peer) + sizeof(std::int32_t);
  }
  /// Gives it multicast, of `bytes` at most: the same on all ranks. Once, before others use the
  /// fabric.
  void adopt_datagrams(std::unique_ptr<NetworkDatagrams> datagrams, std::size_t bytes) noexcept;
  /// Ends this rank for its peers as the death of its process would; for ranks that are threads.
  void die() noexcept;

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  void withdraw(Region& region) noexcept override;
  Region& arena() noexcept override { return arena_; }
  Status arena_of(std::int32_t peer, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override {
    if (offset > arena_.bytes || bytes > arena_.bytes - offset)
      return Status::error(Code::no_memory, "beyond the arena");
    return shm_->reserve(offset, bytes);
  }
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  bool maps(std::int32_t peer) const noexcept override { return shm_->maps(peer); }
  bool reaches(std::int32_t peer) const noexcept override { return peer >= 0 && peer < size_; }
  std::int32_t node_of(std::int32_t peer) const noexcept override {
    return node_of_[static_cast<std::size_t>(peer)];
  }
  Locality locality_of(std::int32_t peer) const noexcept override {
    return shm_->locality_of(peer);
  }

  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;
  void forget(Completion& completion) noexcept override;
  void progress() noexcept override;
  void expect_reads() noexcept override;
  void leave_to_caller() noexcept override { network_->leave_to_caller(); }

  void wake(std::int32_t peer, Event event) noexcept override;
  void wake_reader(std::int32_t peer) noexcept override {
    is_remote(peer) ? wake(peer, Event::solicited) : shm_->wake_reader(peer);
  }
  void await_only(std::int32_t peer) noexcept override { shm_->await_only(peer); }
  std::uint32_t arm(Attention attention) noexcept override { return shm_->arm(attention); }
  void sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept override;
  void disarm(Attention attention) noexcept override { shm_->disarm(attention); }
  void stays_awake() noexcept override { shm_->stays_awake(); }
  bool alive(std::int32_t peer) noexcept override;
  void inquire(std::int32_t peer) noexcept override {
    if (is_remote(peer)) static_cast<void>(introduce(peer));
  }
  bool left(std::int32_t peer) noexcept override;
  bool breakage(std::uint64_t number, Breakage* out) const noexcept override {
    return shm_->breakage(number, out);
  }
  void tell_broken(const Breakage& breakage, const std::int32_t* members,
                   int size) noexcept override;
  std::uint64_t now_ns() const noexcept override { return shm_->now_ns(); }
  Datagrams* datagrams() noexcept override { return datagrams_.get(); }
  /// Times that the network has woken this rank's own thread. Any thread.
  std::uint64_t interrupts() const noexcept { return interrupts_.load(std::memory_order_relaxed); }

 private:
  /// A notice is a kind and the rank that it is about: the sender, except where a rank is lost.
  /// kBroken: the sender has put a BreakageNotice into the own box.
  enum NoticeKind : std::uint32_t { kHello, kGoodbye, kLostRank, kBroken };
  enum State : std::uint8_t { kPresent, kLeft, kLost };

  /// What is known of a rank on another node. Addresses are written once; flags by whoever finds
  /// out.
  struct Peer {
    std::uint64_t address = 0;  // of its arena, as the network wants it
    std::uint64_t key = 0;
    std::atomic<std::uint8_t> state{kPresent};
    std::atomic<bool> introduced{false};             // knows, or is known to know, of this rank
    std::atomic<std::uint32_t> notices_received{0};  // notices kBroken that have come from it
    std::uint32_t notices_sent = 0;   // that have gone to it; under the engine's lock
    bool served_unsolicited = false;  // something unsolicited has gone to it; likewise
  };
  /// A question whether a peer still answers: a read of its memory.
  struct Probe {
    Completion completion;
    std::uint64_t word = 0;
    std::uint64_t asked_ns = 0;
    std::uint64_t answered_ns = 0;
    std::uint64_t stood_ns = 0;  // when its machine last knew its process
    bool asking = false;
  };
  /// A breakage as a rank of another node puts it into the box at the end of the arena, in the
  /// place that its rank and number give. Two ranks that meet in one place are found out by
  /// `check`, or by the number that is missing.
  struct BreakageNotice {
    std::uint64_t team[2] = {0, 0};
    std::int32_t sender = -1, rank = -1, teller = -1;
    std::uint32_t number = 0, code = 0;  // number: from 1
    std::uint32_t unused = 0;
    std::uint64_t check = 0;
  };
  static constexpr std::size_t kNoticePlaces = 64, kNoticeBytes = 64;
  static constexpr std::size_t kBoxBytes = kNoticePlaces * kNoticeBytes;
  static std::size_t notice_place(std::int32_t sender, std::uint32_t number) noexcept {
    return (static_cast<std::size_t>(sender) + number) % kNoticePlaces * kNoticeBytes;
  }
  static std::uint64_t check_of(const BreakageNotice& notice) noexcept;
  struct Introduction;
  /// What wakes the ranks of this node, while they are met.
  struct Doorbells {
    int own = -1;
    std::vector<int> all;  // in the order of the neighbours; -1 where the kernel gives none
    bool complete = false;

    void close_all() noexcept;
  };

  NodesFabric(std::unique_ptr<shm::ShmFabric> shm, std::unique_ptr<Network> network) noexcept;
  void throw_lifelines(const std::vector<NetworkAddress>& addresses);
  void adopt(const std::vector<Introduction>& all, const Settings& settings) noexcept;

  bool is_remote(std::int32_t peer) const noexcept {
    return peer >= 0 && peer < size_ && !shm_->maps(peer);
  }
  Peer& peer_at(std::int32_t peer) noexcept { return peers_[static_cast<std::size_t>(peer)]; }
  Status check_range(const Remote& remote, std::size_t offset, std::size_t bytes) noexcept;
  Status introduce(std::int32_t peer) noexcept;
  NetworkTarget target_of(const Remote& remote, std::size_t offset) const noexcept {
    return {remote.peer, remote.handle + offset, remote.key.words[3]};
  }
  NetworkTarget arena_target(std::int32_t peer) noexcept {
    return {peer, peer_at(peer).address, peer_at(peer).key};
  }
  void collect() noexcept;
  void take_notices() noexcept;
  void tell_broken(std::int32_t peer, const Breakage& breakage) noexcept;
  void repeat_breakages(std::int32_t peer) noexcept;
  void hear_last_words() noexcept;
  void hear_broken(std::int32_t sender) noexcept;
  void lose(std::int32_t peer, const char* why, bool pass_on_locally) noexcept;
  void notify(std::int32_t peer, std::uint32_t kind, std::int32_t subject) noexcept;
  void say_last(std::int32_t peer, std::uint32_t kind) noexcept;
  void look_after(bool bit_by_bit) noexcept;
  bool answers(std::int32_t peer, Probe& probe, std::uint64_t now) noexcept;

  // The thread.
  void start_thread() noexcept;
  void stop_thread() noexcept;
  void run() noexcept;
  void wait_for_network() noexcept;
  void wait_for_call(int milliseconds) noexcept;
  bool watch_network(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept;
  void sleep_on_network(std::uint64_t timeout_ns, Attention attention) noexcept;
  bool pause_for_parts() noexcept;
  bool watched_enough() const noexcept;
  bool must_call_thread(Attention attention) const noexcept;
  static Status gather_doorbells(Bootstrap& bootstrap, const shm::ShmFabric& shm,
                                 Doorbells* out) noexcept;
  static Status conclude(Bootstrap& bootstrap, const Status& mine,
                         const std::vector<std::int32_t>& neighbours,
                         Doorbells* doorbells) noexcept;
  void adopt(Doorbells& doorbells) noexcept;
  void wake_thread() noexcept;
  void ring_sleepers(Moved moved) noexcept;
  void say_goodbye() noexcept;

  std::unique_ptr<shm::ShmFabric> shm_;
  Lifelines lifelines_;
  std::unique_ptr<Network> network_;  // goes before the memory that it uses
  std::unique_ptr<NetworkDatagrams> datagrams_;
  Region arena_;
  NetworkMemory arena_memory_;
  std::string trait_name_;
  std::vector<std::string> names_;     // of the nodes
  std::vector<std::int32_t> node_of_;  // by job rank
  std::vector<Peer> peers_;            // by job rank
  std::uint64_t timeout_ns_ = 0;

  std::mutex probes_mutex_;
  std::unordered_map<std::int32_t, Probe> probes_;  // only of peers that were waited for

  int thread_cpu_ = -1;  // to bind it to; -1: none
  std::thread thread_;
  int event_ = -1;  // wakes the thread
  std::atomic<bool> stop_{false};
  std::atomic<bool> parked_{false};         // the thread keeps away, because the application polls
  std::atomic<bool> expects_reads_{false};  // it must not keep away until it has looked
  // Threads of this rank that are about to sleep, and those among them with Attention::all.
  std::atomic<std::uint32_t> armed_{0}, attentive_{0};
  // One of them sleeps on the network's descriptor.
  enum class Watch : std::uint8_t { none, solicited, all };
  std::atomic<Watch> watch_{Watch::none};
  std::atomic<Watch> listening_{Watch::none};  // for what the network's own thread sleeps there
  std::atomic<std::uint64_t> interrupts_{0};   // written by the thread
  std::vector<int> doorbells_;                 // of the neighbours, the own one too
  int doorbell_ = -1;                          // the own one
  bool watches_ =
      false;  // every rank of this node has all doorbells; else nobody sleeps on descriptors
  std::atomic<std::uint64_t> calls_{
      0};  // of progress(); written under the engine's lock, read by the thread
  Parts parts_;
  bool dead_ = false;
};

}  // namespace tutti::nodes
