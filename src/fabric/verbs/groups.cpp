// Joining and leaving groups, and the objects that all groups of a rank share.
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "fabric/verbs/datagrams.hpp"
#include "fabric/verbs/limits.hpp"

namespace tutti::verbs {
namespace {

constexpr int kJoinMs = 5000;             // for the network to answer
constexpr int kMostGroups = 0xffff;       // of a rank
constexpr int kFirstQueue = 256;          // arrivals that the completion queue holds at first
constexpr std::uint16_t kScope = 0xff12;  // of a multicast GID: transient, within the subnet

Status refuse(std::string* message, const std::string& text) {
  *message = text;
  return Status::error(Code::unsupported, "no multicast by datagrams of an RDMA device");
}

std::size_t bytes_of(ibv_mtu mtu) { return std::size_t{128} << static_cast<unsigned>(mtu); }

}  // namespace

Status VerbsDatagrams::open(ibv_context* device, std::uint8_t port, const sockaddr_storage& source,
                            int rank, const groups::Secret& secret,
                            std::unique_ptr<NetworkDatagrams>* out, std::string* message) {
  std::unique_ptr<VerbsDatagrams> datagrams(new (std::nothrow)
                                                VerbsDatagrams(device, source, rank, secret));
  if (!datagrams) return Status::error(Code::no_memory, "out of memory");
  TUTTI_TRY(datagrams->open_queues(port, message));
  *out = std::move(datagrams);
  return Status::success();
}

Status VerbsDatagrams::open_queues(std::uint8_t port, std::string* message) {
  const std::string name = device_->device->name;
  ibv_port_attr attributes{};
  ibv_device_attr limits{};
  if (ibv_query_port(device_, port, &attributes) != 0 || ibv_query_device(device_, &limits) != 0)
    return refuse(message, name + " does not answer");
  ethernet_ = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (ethernet_ && source_.ss_family != AF_INET)
    return refuse(message, "multicast of " + name + " needs an IPv4 address on its interface");
  if (limits.max_mcast_grp <= 0) return refuse(message, name + " has no multicast");
  mtu_ = bytes_of(attributes.active_mtu);
  most_receives_ = std::min(kGroupReceives, static_cast<std::uint32_t>(limits.max_qp_wr));
  events_ = rdma_create_event_channel();
  domain_ = ibv_alloc_pd(device_);
  channel_ = ibv_create_comp_channel(device_);
  if (events_ == nullptr || domain_ == nullptr || channel_ == nullptr)
    return refuse(message, name + " has no objects left");
  for (const int descriptor : {events_->fd, channel_->fd})
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  arrived_ = ibv_create_cq(device_, kFirstQueue, nullptr, channel_, 0);
  sent_ = ibv_create_cq(device_, kGroupSends, nullptr, nullptr, 0);
  if (arrived_ == nullptr || sent_ == nullptr) return refuse(message, name + " has no queues left");
  if (!add_slab(kGroupSends, mtu_, &outgoing_)) {
    return refuse(message,
                  name + " cannot register memory: raise the limit of locked memory (ulimit -l)");
  }
  sends_.resize(kGroupSends);
  return Status::success();
}

VerbsDatagrams::~VerbsDatagrams() {
  for (std::size_t i = 0; i < groups_.size(); ++i) leave(static_cast<int>(i));
  if (sent_ != nullptr) ibv_destroy_cq(sent_);
  if (arrived_ != nullptr) ibv_destroy_cq(arrived_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (outgoing_.region != nullptr) ibv_dereg_mr(outgoing_.region);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (events_ != nullptr) rdma_destroy_event_channel(events_);
}

bool VerbsDatagrams::add_slab(std::size_t buffers, std::size_t bytes, Slab* out) noexcept {
  Slab slab;
  slab.memory.reset(new (std::nothrow) std::byte[buffers * bytes]);
  if (!slab.memory) return false;
  slab.region = ibv_reg_mr(domain_, slab.memory.get(), buffers * bytes, IBV_ACCESS_LOCAL_WRITE);
  if (slab.region == nullptr) return false;
  *out = std::move(slab);
  return true;
}

// ---- groups
// ---------------------------------------------------------------------------------------

/// RoCE carries datagrams in those of IP. On InfiniBand the group is a GID with 112 random bits
/// (MCAST-2007, section 3).
void VerbsDatagrams::name_place(Group& group) const noexcept {
  if (ethernet_) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(group.name.address);
    std::memcpy(&group.address, &address, sizeof address);
    return;
  }
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  const std::uint16_t scope = htons(kScope);
  std::memcpy(&address.sib_addr, &scope, sizeof scope);
  std::memcpy(reinterpret_cast<std::byte*>(&address.sib_addr) + sizeof scope, group.name.gid,
              sizeof group.name.gid);
  static_assert(sizeof scope + sizeof group.name.gid == sizeof address.sib_addr);
  std::memcpy(&group.address, &address, sizeof address);
}

Status VerbsDatagrams::make_queue_pair(Group& group) noexcept {
  sockaddr_storage source = source_;
  if (rdma_create_id(events_, &group.id_of_device, nullptr, RDMA_PS_UDP) != 0)
    return Status::error(Code::no_memory, "no object for a multicast group");
  if (rdma_bind_addr(group.id_of_device, reinterpret_cast<sockaddr*>(&source)) != 0 ||
      group.id_of_device->verbs != device_) {
    return Status::error(Code::unsupported, "the device's address is gone");
  }
  ibv_qp_init_attr wanted{};
  wanted.send_cq = sent_;
  wanted.recv_cq = arrived_;
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap.max_send_wr = kGroupSends;
  wanted.cap.max_recv_wr = most_receives_;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  if (rdma_create_qp(group.id_of_device, domain_, &wanted) != 0)
    return Status::error(Code::no_memory, "no queue pair for a multicast group");
  ibv_qp_attr key{};
  key.qp_state = IBV_QPS_RTS;  // as it is
  key.qkey = group.name.queue_key;
  if (ibv_modify_qp(group.id_of_device->qp, &key, IBV_QP_STATE | IBV_QP_QKEY) != 0)
    return Status::error(Code::unsupported, "the device refuses the group's queue key");
  return Status::success();
}

/// Waits for the network's answer.
Status VerbsDatagrams::enter(Group& group) noexcept {
  auto* const address = reinterpret_cast<sockaddr*>(&group.address);
  if (rdma_join_multicast(group.id_of_device, address, nullptr) != 0)
    return Status::error(Code::unsupported, "the system refuses a multicast group");
  const std::uint64_t until = now_ns() + kJoinMs * std::uint64_t{1'000'000};
  do {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events_, &event) != 0) {
      pollfd readable{events_->fd, POLLIN, 0};
      poll(&readable, 1, 10);
      continue;
    }
    const bool its = event->id == group.id_of_device;
    const auto kind = event->event;
    if (its && kind == RDMA_CM_EVENT_MULTICAST_JOIN) {
      group.way = ibv_create_ah(domain_, &event->param.ud.ah_attr);
      group.remote_queue = event->param.ud.qp_num;
    }
    rdma_ack_cm_event(event);
    if (group.way != nullptr) return Status::success();
    if (its && (kind == RDMA_CM_EVENT_MULTICAST_JOIN || kind == RDMA_CM_EVENT_MULTICAST_ERROR))
      return Status::error(Code::unsupported, "the network refuses a multicast group");
  } while (now_ns() < until);
  return Status::error(Code::timeout, "the network does not answer who joins a multicast group");
}

/// Room in the completion queue for so many receives more.
bool VerbsDatagrams::fits_queue(std::size_t more) noexcept {
  const auto wanted = static_cast<int>(posted_ + more);
  return wanted <= arrived_->cqe ||
         ibv_resize_cq(arrived_, std::max(wanted, 2 * arrived_->cqe)) == 0;
}

/// Posts receives until there are `depth`. False where memory or the device has no more.
bool VerbsDatagrams::add_receives(Group& group, int slot, std::size_t depth) noexcept {
  const std::size_t before = group.receives.size(), bytes = kRouteHeader + mtu_;
  if (depth <= before) return true;
  const std::size_t more = depth - before;
  Slab slab;
  if (!fits_queue(more) || !add_slab(more, bytes, &slab)) return false;
  try {
    group.receives.reserve(depth);
    group.slabs.push_back(std::move(slab));
  } catch (const std::bad_alloc&) {
    if (slab.region != nullptr) ibv_dereg_mr(slab.region);
    return false;
  }
  for (std::size_t i = 0; i < more; ++i) {
    Receive receive;
    receive.at = group.slabs.back().memory.get() + i * bytes;
    receive.key = group.slabs.back().region->lkey;
    group.receives.push_back(receive);
    ++posted_;
    if (!post(group, slot, static_cast<int>(before + i))) return false;
  }
  return true;
}

Status VerbsDatagrams::join(const std::uint64_t id[2], int depth, int* out) noexcept {
  if (depth < 1)
    return Status::error(Code::invalid_argument, "a member needs at least one receive");
  const std::lock_guard lock(mutex_);
  for (const auto& other : groups_) {
    if (other && other->id[0] == id[0] && other->id[1] == id[1])
      return Status::error(Code::invalid_argument, "this rank is a member already");
  }
  auto free = std::find(groups_.begin(), groups_.end(), nullptr);
  const auto slot = static_cast<int>(free - groups_.begin());
  std::unique_ptr<Group> made(new (std::nothrow) Group);
  if (!made || slot > kMostGroups) return Status::error(Code::no_memory, "no more groups");
  Group& group = *made;
  group.id[0] = id[0];
  group.id[1] = id[1];
  group.serial = ++serials_;
  group.name = groups::name_group(secret_, id);
  name_place(group);
  Status status = make_queue_pair(group);
  const auto receives = std::min(static_cast<std::uint32_t>(depth), most_receives_);
  if (status.ok() && !add_receives(group, slot, receives)) {
    status = Status::error(Code::no_memory,
                           "no receives for a multicast group: raise the limit of locked memory");
  }
  if (status.ok()) status = enter(group);
  if (!status.ok()) {
    close(group);
    return status;
  }
  if (free != groups_.end()) {
    *free = std::move(made);
  } else {
    groups_.push_back(std::move(made));
  }
  joined_.fetch_add(1, std::memory_order_relaxed);
  *out = slot;
  return status;
}

void VerbsDatagrams::leave(int group) noexcept {
  const std::lock_guard lock(mutex_);
  if (at(group) == nullptr) return;
  const auto gone = std::move(groups_[static_cast<std::size_t>(group)]);
  close(*gone);
  drain();  // of what had come for it
  joined_.fetch_sub(1, std::memory_order_relaxed);
}

void VerbsDatagrams::deepen(int group, int depth) noexcept {
  const std::lock_guard lock(mutex_);
  Group* const its = at(group);
  if (its == nullptr || depth < 1) return;
  // Where that cannot be, those that there are do: room() says how many.
  add_receives(*its, group, std::min(static_cast<std::uint32_t>(depth), most_receives_));
}

void VerbsDatagrams::close(Group& group) noexcept {
  if (group.id_of_device != nullptr && group.id_of_device->qp != nullptr) {
    await_sends(group.serial);
    if (group.way != nullptr)
      rdma_leave_multicast(group.id_of_device, reinterpret_cast<sockaddr*>(&group.address));
    rdma_destroy_qp(group.id_of_device);
  }
  for (Send& send : sends_) {
    if (send.serial == group.serial) send.serial = 0;
  }
  if (group.way != nullptr) ibv_destroy_ah(group.way);
  if (group.id_of_device != nullptr) rdma_destroy_id(group.id_of_device);
  for (const Slab& slab : group.slabs) ibv_dereg_mr(slab.region);
  posted_ -= group.receives.size();
}

}  // namespace tutti::verbs
