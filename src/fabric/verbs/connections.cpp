// Connections: made when a rank first has something for a peer, accepted when a peer has, ended by
// errors.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "fabric/verbs/limits.hpp"
#include "fabric/verbs/verbs.hpp"

namespace tutti::verbs {
namespace {

constexpr int kResolveMs = 2000;
constexpr std::uint64_t kLookForEvents =
    1'000'000;  // ns between looks, each a system call, while nothing is awaited
constexpr std::uint8_t kForEver =
    7;  // of a receiver that is not ready: its pool is full again soon
constexpr std::uint8_t kRetries = 7;
constexpr const char* kBroken = "the connection is broken";
constexpr int kMostReads = 16;  // under way on a connection

/// The context of an own connection names the peer; those that others made have none.
void* context_of(std::int32_t rank) noexcept {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(rank) + 1);
}
std::int32_t rank_of(const rdma_cm_id& id) noexcept {
  return static_cast<std::int32_t>(reinterpret_cast<std::intptr_t>(id.context) - 1);
}

}  // namespace

/// Sees to it that there is, or will be, a connection. Fails where that is known to be in vain.
Status VerbsNetwork::reach(std::int32_t rank) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.link == Link::broken) {
    // Nobody was told while nothing was under way: the peer may have left in good order.
    const Status status = Status::peer_lost(rank, kBroken);
    if (!peer.loss_reported) finished_.push_back({nullptr, status});
    peer.loss_reported = true;
    return status;
  }
  if (peer.link != Link::none) return Status::success();
  const NetworkAddress& address = addresses_[static_cast<std::size_t>(rank)];
  sockaddr_storage target{};
  std::memcpy(&target, address.data, std::min<std::size_t>(address.bytes, sizeof target));
  if (rdma_create_id(events_, &peer.id, context_of(rank), RDMA_PS_TCP) != 0) {
    return Status::error(Code::no_memory, "no connection can be made");
  }
  if (rdma_resolve_addr(peer.id, reinterpret_cast<sockaddr*>(&source_),
                        reinterpret_cast<sockaddr*>(&target), kResolveMs) != 0) {
    rdma_destroy_id(peer.id);
    peer.id = nullptr;
    peer.link = Link::broken;
    return Status::peer_lost(rank, "there is no way to its address");
  }
  peer.link = Link::connecting;
  ++connecting_;
  ++use_.connections;
  return Status::success();
}

bool VerbsNetwork::make_queue_pair(rdma_cm_id* id, std::uint32_t sends) noexcept {
  if (id->verbs != device_) return false;  // by a way that leads over another device
  for (const std::uint32_t inlined : {kInline, kLeastInline}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = queue_;
    wanted.recv_cq = queue_;
    wanted.srq = receives_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = sends;
    wanted.cap.max_send_sge = 1;
    wanted.cap.max_inline_data = inlined;
    if (rdma_create_qp(id, domain_, &wanted) != 0) continue;
    inline_bytes_ = std::min(inline_bytes_, wanted.cap.max_inline_data);
    return true;
  }
  return false;
}

rdma_conn_param VerbsNetwork::parameters() const noexcept {
  rdma_conn_param wanted{};
  wanted.responder_resources =
      static_cast<std::uint8_t>(std::min(limits_.max_qp_rd_atom, kMostReads));
  wanted.initiator_depth =
      static_cast<std::uint8_t>(std::min(limits_.max_qp_init_rd_atom, kMostReads));
  wanted.retry_count = kRetries;
  wanted.rnr_retry_count = kForEver;
  wanted.flow_control = 1;
  wanted.srq = 1;
  return wanted;
}

/// True when something has happened. Looking costs a system call, so an application that polls does
/// it rarely.
bool VerbsNetwork::handle_events(bool surely) noexcept {
  if (!surely && connecting_ == 0) {
    const std::uint64_t now = now_ns();
    if (now - events_seen_ns_ < kLookForEvents) return false;
    events_seen_ns_ = now;
  }
  bool any = refill();
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(events_, &event) == 0) {
    const rdma_cm_event copy = *event;
    const bool known = is_of_this_job(*event);  // what it carries goes with it
    rdma_ack_cm_event(event);                   // before its connection may be destroyed
    handle(copy, known);
    any = true;
  }
  return any;
}

VerbsNetwork::Introduction VerbsNetwork::introduction(std::int32_t from,
                                                      std::int32_t to) const noexcept {
  const std::int32_t both[2] = {from, to};
  return {from, to, prove(secret_, "verbs", both, sizeof both)};
}

/// Of a request for a connection: whoever makes it knows the job's secret.
bool VerbsNetwork::is_of_this_job(const rdma_cm_event& event) const noexcept {
  Introduction shown;
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST || event.param.conn.private_data == nullptr ||
      event.param.conn.private_data_len < sizeof shown)
    return false;
  std::memcpy(&shown, event.param.conn.private_data, sizeof shown);
  return shown.to == rank_ && equal(shown.proof, introduction(shown.from, rank_).proof);
}

void VerbsNetwork::handle(const rdma_cm_event& event, bool known) noexcept {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    accept(event.id, known);
  } else if (event.id != listener_ && event.id->context != nullptr) {
    handle_own(rank_of(*event.id), event);
  } else if (accepted_.count(event.id) != 0) {
    if (event.event == RDMA_CM_EVENT_ESTABLISHED || event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
      return;
    // Its maker has ended it or died; what it has sent has arrived before.
    accepted_.erase(event.id);
    rdma_disconnect(event.id);
    rdma_destroy_qp(event.id);
    rdma_destroy_id(event.id);
  }
}

void VerbsNetwork::handle_own(std::int32_t rank, const rdma_cm_event& event) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(event.id, kResolveMs) != 0) break_link(rank, kBroken);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      const Introduction shown = introduction(rank_, rank);
      rdma_conn_param wanted = parameters();
      wanted.private_data = &shown;
      wanted.private_data_len = sizeof shown;
      if (!make_queue_pair(event.id, kSends) || rdma_connect(event.id, &wanted) != 0)
        break_link(rank, kBroken);
      return;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (peer.link != Link::connecting) return;
      --connecting_;
      peer.link = Link::ready;
      return;
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:         // rejected, unreachable, disconnected, the device is gone
      read_queue();  // what arrived before, a goodbye perhaps, counts first
      break_link(rank, kBroken);
  }
}

/// A stranger gets no queue pair: nothing that it sends reaches any memory.
void VerbsNetwork::accept(rdma_cm_id* id, bool known) noexcept {
  id->context = nullptr;
  if (!known) log(LogLevel::debug, "a stranger has asked for a connection over verbs: refused");
  rdma_conn_param wanted = parameters();
  if (known && make_queue_pair(id, 1) && rdma_accept(id, &wanted) == 0) {
    accepted_.insert(id);
    return;
  }
  rdma_reject(id, nullptr, 0);
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

/// Nothing goes to this peer any more: what the device has comes back with errors, what waits
/// fails.
void VerbsNetwork::break_link(std::int32_t rank, const char* why) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.link == Link::broken) return;
  if (peer.link == Link::connecting) --connecting_;
  peer.link = Link::broken;
  if (peer.id != nullptr && peer.id->qp != nullptr) {
    rdma_disconnect(peer.id);
    // Also where the connection was not up yet.
    ibv_qp_attr failed{};
    failed.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(peer.id->qp, &failed, IBV_QP_STATE);
  }
  fail_queues(rank, why);
}

}  // namespace tutti::verbs
