// A network through libibverbs and librdmacm: InfiniBand, RoCE, iWARP.
//
// Reliable connections, made on first use; one carries the operations of the rank that made it, so
// that two ranks that call each other at the same time need not agree on one. All connections of a
// rank share one pool of receives and one completion queue. A counter is a second write behind the
// data's on the same connection, which are ordered; it carries immediate data, with the solicited
// bit where it is to wake also who sleeps for such events alone. Nothing relies on the order of
// bytes within a write; an aligned word is written whole, which RDMA devices do.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/queued/queued.hpp"
#include "fabric/verbs/memory.hpp"

namespace tutti::verbs {

class VerbsNetwork final : public QueuedNetwork {
 public:
  ~VerbsNetwork() override;

  /// Opens the device of the network interface that the settings name, or the first RDMA device
  /// with an address. On failure `*message` says in one line what is missing.
  static Status open(const Settings& settings, std::unique_ptr<Network>* out, std::string* message);

  static constexpr FabricDescription describe() noexcept {
    return {"verbs", "ranks of different nodes, by RDMA devices (where a job's nodes have them)"};
  }
  const char* name() const noexcept override { return describe().name; }
  bool bypasses_kernel() const noexcept override { return true; }
  std::uint32_t version() const noexcept override { return 1; }
  const NetworkAddress& address() const noexcept override { return address_; }
  bool selective() const noexcept override { return selective_; }
  bool has_datagrams() const noexcept override { return true; }
  Status open_datagrams(int rank, const Secret& secret, std::unique_ptr<NetworkDatagrams>* out,
                        std::string* message) override;
  void abort() noexcept override;

 private:
  enum class Link : std::uint8_t { none, connecting, ready, broken };
  struct Peer {
    rdma_cm_id* id = nullptr;
    std::uint32_t taken = 0;  // places of the send queue
    Link link = Link::none;
    bool loss_reported = false;  // that it is lost
  };

  VerbsNetwork() = default;
  Status open_objects(const Settings& settings, std::string* message);
  Status open_device(const Settings& settings, std::string* message);
  Status open_queues(std::string* message);
  Status open_memory(const Settings& settings, std::string* message);
  void close_all() noexcept;

  // Operations.
  Status prepare_for_peers() noexcept override;
  Status register_for_peers(void* base, std::size_t bytes, Registration* region,
                            NetworkMemory* out) noexcept override;
  Posted post(Operation& operation) noexcept override;
  Moved poll(bool surely) noexcept override;
  bool patient(std::int32_t peer, const Queue& queue, std::uint64_t now) noexcept override;
  int arm(Attention attention) noexcept override;
  bool needs_all() const noexcept override { return anything_pending(); }
  Posted post_data(Peer& peer, Operation& operation) noexcept;
  Posted post_counter(Peer& peer, Operation& operation) noexcept;
  bool post_part(Peer& peer, Operation& operation, ibv_send_wr& request) noexcept;
  void request_over(Operation& operation, bool good) noexcept;
  Moved read_queue() noexcept;
  bool refill() noexcept;
  bool tell_when_few() noexcept;

  // Connections.
  Status reach(std::int32_t rank) noexcept override;
  void give_up(std::int32_t rank, const char* why) noexcept override { break_link(rank, why); }
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
  void break_link(std::int32_t rank, const char* why) noexcept;

  NetworkAddress address_;
  sockaddr_storage source_{};  // of this rank, without a port
  int descriptor_ = -1;        // epoll: the two channels below, and the device's own events
  bool selective_ = false;     // messages of programs are put unsolicited

  // Under the mutex.
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
  std::vector<Peer> peers_;
  std::set<rdma_cm_id*> accepted_;  // connections that others made
  std::uint64_t events_seen_ns_ = 0;
  Moved unreported_ = Moved::nothing;  // what arm() has read
  int connecting_ = 0;
};

}  // namespace tutti::verbs
