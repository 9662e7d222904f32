// Choosing a device and opening its objects, and closing them.
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "fabric/verbs/datagrams.hpp"
#include "fabric/verbs/limits.hpp"
#include "fabric/verbs/verbs.hpp"

namespace tutti::verbs {
namespace {

constexpr std::size_t kLargestPart = std::size_t{1} << 30;

Status refuse(std::string* message, const char* text) {
  *message = text;
  return Status::error(Code::unsupported, "no RDMA device can be used");
}

socklen_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool is_usable(const ifaddrs& interface, const std::string& wanted) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  if (!wanted.empty() && wanted != interface.ifa_name) return false;
  if (interface.ifa_addr->sa_family == AF_INET) return true;
  return interface.ifa_addr->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(
             &reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr);
}

void do_not_block(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

/// Whether remote operations reach memory that is not pinned.
bool pages_on_demand(ibv_context* device) {
  ibv_device_attr_ex attributes{};
  if (ibv_query_device_ex(device, nullptr, &attributes) != 0) return false;
  const auto needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
         (attributes.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

}  // namespace

Status VerbsNetwork::open(const Settings& settings, std::unique_ptr<Network>* out,
                          std::string* message) {
  auto network = std::unique_ptr<VerbsNetwork>(new (std::nothrow) VerbsNetwork);
  if (!network) return Status::error(Code::no_memory, "out of memory");
  TUTTI_TRY(network->open_objects(settings, message));
  *out = std::move(network);
  return Status::success();
}

Status VerbsNetwork::open_objects(const Settings& settings, std::string* message) {
  selective_ = settings.p2p == Switch::on;
  events_ = rdma_create_event_channel();
  if (events_ == nullptr)
    return refuse(message, "this machine has no RDMA connection manager (/dev/infiniband/rdma_cm)");
  do_not_block(events_->fd);
  TUTTI_TRY(open_device(settings, message));
  TUTTI_TRY(open_queues(message));
  return open_memory(settings, message);
}

/// Listens on the first address that belongs to an RDMA device; IPv4 before IPv6.
Status VerbsNetwork::open_device(const Settings& settings, std::string* message) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return refuse(message, "the network interfaces cannot be listed");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* place = all; place != nullptr && device_ == nullptr;
         place = place->ifa_next) {
      if (!is_usable(*place, settings.net_interface) || place->ifa_addr->sa_family != family)
        continue;
      if (rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0) continue;
      sockaddr_storage address{};
      std::memcpy(&address, place->ifa_addr, length_of(*place->ifa_addr));
      if (rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) == 0 &&
          listener_->verbs != nullptr && rdma_listen(listener_, kBacklog) == 0) {
        device_ = listener_->verbs;
        source_ = address;
      } else {
        rdma_destroy_id(listener_);
        listener_ = nullptr;
      }
    }
  }
  if (device_ == nullptr) {
    *message = settings.net_interface.empty()
                   ? "no network interface belongs to an RDMA device"
                   : "the interface '" + settings.net_interface + "' belongs to no RDMA device";
    return Status::error(Code::unsupported, "no RDMA device can be used");
  }
  const sockaddr* own = rdma_get_local_addr(listener_);  // with its port
  address_.bytes = length_of(*own);
  std::memcpy(address_.data, own, address_.bytes);
  return Status::success();
}

Status VerbsNetwork::open_queues(std::string* message) {
  ibv_port_attr port{};
  if (ibv_query_device(device_, &limits_) != 0 ||
      ibv_query_port(device_, listener_->port_num, &port) != 0) {
    return refuse(message, "the RDMA device does not answer");
  }
  largest_part_ = std::min<std::size_t>(port.max_msg_sz, kLargestPart);
  inline_bytes_ = kInline;
  on_demand_ = pages_on_demand(device_);
  domain_ = ibv_alloc_pd(device_);
  channel_ = ibv_create_comp_channel(device_);
  if (domain_ == nullptr || channel_ == nullptr)
    return refuse(message, "the RDMA device has no objects left");
  do_not_block(channel_->fd);
  queue_ = ibv_create_cq(device_, 2 * kReceives, nullptr, channel_, 0);
  ibv_srq_init_attr pool{};
  pool.attr = {kReceives, 1, 0};
  receives_ = ibv_create_srq(domain_, &pool);
  if (queue_ == nullptr || receives_ == nullptr || !post_receives(receives_, kReceives)) {
    return refuse(message, "the RDMA device has no queues left");
  }
  descriptor_ = epoll_create1(EPOLL_CLOEXEC);
  selective_ = selective_ && tell_when_few();
  if (selective_) do_not_block(device_->async_fd);
  for (const int source : {channel_->fd, events_->fd, device_->async_fd}) {
    if (source == device_->async_fd && !selective_) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = source;
    if (epoll_ctl(descriptor_, EPOLL_CTL_ADD, source, &event) != 0)
      return refuse(message, "no descriptors left");
  }
  return Status::success();
}

Status VerbsNetwork::open_memory(const Settings& settings, std::string* message) {
  registrar_.open(domain_);
  start(&registrar_, settings.net_timeout_s);
  if (memory_.add_pool()) return Status::success();
  return refuse(
      message,
      "the RDMA device cannot register memory: raise the limit of locked memory (ulimit -l)");
}

Status VerbsNetwork::open_datagrams(int rank, const Secret& secret,
                                    std::unique_ptr<NetworkDatagrams>* out, std::string* message) {
  const std::lock_guard lock(mutex_);
  if (listener_ == nullptr) {
    *message = "the network is closed";
    return Status::error(Code::internal, "the network is closed");
  }
  return VerbsDatagrams::open(device_, listener_->port_num, source_, rank, secret, out, message);
}

void VerbsNetwork::close_all() noexcept {
  stop();
  for (Peer& peer : peers_) {
    if (peer.id == nullptr) continue;
    if (peer.id->qp != nullptr) rdma_destroy_qp(peer.id);
    rdma_destroy_id(peer.id);
    peer.id = nullptr;
    peer.link = Link::broken;
  }
  for (rdma_cm_id* id : accepted_) {
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
  }
  accepted_.clear();
  close_memory();
  if (receives_ != nullptr) ibv_destroy_srq(receives_);
  if (queue_ != nullptr) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    unsigned count = 0;
    while (ibv_get_cq_event(channel_, &queue, &context) == 0) ++count;
    if (count != 0) ibv_ack_cq_events(queue_, count);
    ibv_destroy_cq(queue_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  if (events_ != nullptr) rdma_destroy_event_channel(events_);
  receives_ = nullptr;
  queue_ = nullptr;
  channel_ = nullptr;
  domain_ = nullptr;
  listener_ = nullptr;
  events_ = nullptr;
}

VerbsNetwork::~VerbsNetwork() {
  close_all();
  if (descriptor_ >= 0) close(descriptor_);
}

void VerbsNetwork::abort() noexcept {
  const std::lock_guard lock(mutex_);
  close_all();
}

}  // namespace tutti::verbs
