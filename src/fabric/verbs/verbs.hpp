// A network through libibverbs and librdmacm: InfiniBand, RoCE, iWARP.
//
// Reliable connections, made on first use; one carries the operations of the rank that made it, so
// that two ranks that call each other at the same time need not agree on one. All connections of a
// rank share one pool of receives and one completion queue. A counter is a second write behind the
// data's on the same connection, which are ordered; it carries immediate data with the solicited
// bit, so that it wakes who sleeps on the completion channel. Nothing relies on the order of bytes
// within a write; an aligned word is written whole, which RDMA devices do.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/network.hpp"
#include "fabric/verbs/memory.hpp"

namespace tutti::verbs {

class VerbsNetwork final : public Network {
 public:
  ~VerbsNetwork() override;

  /// Opens the device of the network interface that the settings name, or the first RDMA device
  /// with an address. On failure `*message` says in one line what is missing.
  static Status open(const Settings& settings, std::unique_ptr<Network>* out, std::string* message);

  const char* name() const noexcept override { return "verbs"; }
  bool bypasses_kernel() const noexcept override { return true; }
  std::uint32_t version() const noexcept override { return 1; }
  const NetworkAddress& address() const noexcept override { return address_; }
  Status meet(const NetworkAddress* all, int size, int rank,
              const Secret& secret) noexcept override;
  Status expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept override;
  void withdraw(const NetworkMemory& memory) noexcept override;
  Status put(const NetworkTarget& target, const void* source, std::size_t bytes,
             const NetworkTarget* counter, std::uint64_t value,
             Completion* completion) noexcept override;
  Status get(const NetworkTarget& source, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;
  Status notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept override;
  bool progress(bool wait) noexcept override;
  std::size_t finished(NetworkFinished* out, std::size_t most) noexcept override;
  std::size_t notices(std::uint32_t* out, std::size_t most) noexcept override;
  std::size_t forget(Completion* completion) noexcept override;
  std::size_t pending() noexcept override;
  void drop(std::int32_t peer) noexcept override;
  int descriptor() const noexcept override { return descriptor_; }
  bool may_sleep() noexcept override;
  bool blocked() noexcept override;
  bool has_datagrams() const noexcept override { return true; }
  Status open_datagrams(int rank, const Secret& secret, std::unique_ptr<NetworkDatagrams>* out,
                        std::string* message) override;
  NetworkUse use() noexcept override;
  void abort() noexcept override;

 private:
  enum class Kind : std::uint8_t { put, get, notice };
  enum class Link : std::uint8_t { none, connecting, ready, broken };
  enum class Posted : std::uint8_t { all, later, failed };

  /// An operation from its posting until the device has completed all its parts.
  struct Operation {
    Operation* next = nullptr;  // in its peer's queue or in the free list
    Completion* completion = nullptr;
    Completion* abandoned =
        nullptr;                 // of a read that nobody waits for any more, but that still writes
    std::byte* local = nullptr;  // source or destination
    std::size_t bytes = 0;
    std::size_t posted = 0;  // bytes that the device has taken
    NetworkTarget target;
    NetworkTarget counter;
    std::uint64_t value = 0;  // of the counter; a notice
    std::unique_ptr<std::byte[]> copy;
    LocalMemory::Use memory;  // how the device reaches `local`
    std::uint32_t parts = 0;  // work requests that the device has taken and not completed
    Kind kind = Kind::put;
    bool counts = false;  // has a counter that the device has not taken yet
    bool queued = false;
    Status status;
  };
  struct Peer {
    rdma_cm_id* id = nullptr;
    Operation* first = nullptr;  // waiting for a connection or for room, in order
    Operation* last = nullptr;
    std::uint64_t waiting_since_ns = 0;
    std::uint32_t taken = 0;  // places of the send queue
    Link link = Link::none;
    bool listed = false;  // in blocked_
    bool told = false;    // that it is lost
  };

  VerbsNetwork() = default;
  Status open_objects(const Settings& settings, std::string* message);
  Status open_device(const Settings& settings, std::string* message);
  Status open_queues(std::string* message);
  void close_all() noexcept;

  // Operations.
  Operation* make(Kind kind, const NetworkTarget& target, Completion* completion) noexcept;
  Status submit(Operation& operation) noexcept;
  Posted post(Peer& peer, Operation& operation) noexcept;
  bool post_part(Peer& peer, Operation& operation, ibv_send_wr& request) noexcept;
  void enqueue(Peer& peer, Operation& operation) noexcept;
  void end(Operation& operation) noexcept;
  void part_over(Operation& operation, bool good) noexcept;
  bool read_queue() noexcept;
  bool retry(Peer& peer, std::int32_t rank) noexcept;
  void retry_all() noexcept;
  void fail_queue(Peer& peer, std::int32_t rank, const char* why) noexcept;

  // Connections.
  Status start_connecting(std::int32_t rank) noexcept;
  bool handle_events(bool surely) noexcept;
  /// What a rank shows when it connects: who it is, and that it knows the job's secret.
  struct Introduction {
    std::int32_t from = -1, to = -1;
    Proof proof;
  };
  Introduction introduction(std::int32_t from, std::int32_t to) const noexcept;
  bool is_of_this_job(const rdma_cm_event& event) const noexcept;
  void handle(const rdma_cm_event& event, bool known) noexcept;
  void handle_own(std::int32_t rank, const rdma_cm_event& event) noexcept;
  void accept(rdma_cm_id* id, bool known) noexcept;
  bool make_queue_pair(rdma_cm_id* id, std::uint32_t sends) noexcept;
  rdma_conn_param parameters() const noexcept;
  void break_link(std::int32_t rank) noexcept;

  NetworkAddress address_;
  sockaddr_storage source_{};  // of this rank, without a port
  std::uint64_t timeout_ns_ = 0;
  int descriptor_ = -1;  // epoll: the two channels below

  std::mutex mutex_;  // of everything below
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  ibv_context* device_ = nullptr;  // librdmacm's
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_srq* receives_ = nullptr;
  ibv_device_attr limits_{};
  std::size_t largest_part_ = 0;  // bytes of one work request
  std::uint32_t inline_bytes_ = 0;
  bool on_demand_ = false;  // registered memory is not pinned
  Registrar registrar_;
  LocalMemory memory_;
  std::vector<NetworkAddress> addresses_;
  std::int32_t rank_ = -1;
  Secret secret_;
  std::vector<Peer> peers_;
  std::vector<std::int32_t> blocked_;  // peers with a queue
  std::set<rdma_cm_id*> accepted_;     // connections that others made
  std::uint64_t events_seen_ns_ = 0;
  int connecting_ = 0;
  Operation* free_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::deque<NetworkFinished> finished_;
  std::deque<std::uint32_t> notices_;
  std::size_t pending_ = 0;
  NetworkUse use_;
};

}  // namespace tutti::verbs
