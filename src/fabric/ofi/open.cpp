// Choosing a provider and opening its objects.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "fabric/ofi/ofi.hpp"

namespace tutti::ofi {
namespace {

constexpr std::size_t kReceives =
    256;  // per endpoint; the default costs tcp 16 MB and 18 ms at the first use

struct InfoDeleter {
  const Library* library;
  void operator()(fi_info* info) const { library->freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoDeleter>;

Info make_hints(const Library& library, const char* provider) {
  Info hints(library.dupinfo(nullptr), InfoDeleter{&library});
  if (!hints) return hints;
  hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  hints->tx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_WAW;
  hints->rx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_WAW;
  hints->rx_attr->size = kReceives;
  hints->fabric_attr->prov_name = strdup(provider);
  return hints;
}

bool is_loopback(const fi_info& info) {
  const auto* address = static_cast<const sockaddr*>(info.src_addr);
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

/// Lower is better: addresses that other nodes can reach, IPv4 before IPv6.
int rank_of(const fi_info& info) {
  return (is_loopback(info) ? 2 : 0) + (info.addr_format == FI_SOCKADDR_IN6 ? 1 : 0);
}

Status refuse(std::string* message, const std::string& text) {
  *message = text;
  return Status::error(Code::unsupported, "libfabric has no suitable provider");
}

/// Over verbs, ofi_rxm has receives for each connection by default: memory that grows with them,
/// and libfabric 1.17 posts one of them to a connection that is gone (a crash when a job ends). One
/// shared pool has neither. Who sets the variable decides.
void prepare(const std::string& provider) noexcept {
  if (provider == "verbs;ofi_rxm") setenv("FI_OFI_RXM_USE_SRX", "1", 0);
}

}  // namespace

bool OfiNetwork::fits(const fi_info& info) const noexcept {
  return info.ep_attr->type == FI_EP_RDM && info.domain_attr->cq_data_size >= 4 &&
         (info.tx_attr->msg_order & (FI_ORDER_RMA_WAW | FI_ORDER_WAW)) != 0;
}

Status OfiNetwork::choose(const Settings& settings, std::string* message) {
  // tcp as reliable datagrams exists from 1.18 on; before, another layer makes them of its
  // connections.
  std::vector<std::string> providers = {"tcp", "tcp;ofi_rxm"};
  if (!settings.net_provider.empty()) providers = {settings.net_provider};
  for (const std::string& provider : providers) {
    prepare(provider);
    const Info hints = make_hints(library_, provider.c_str());
    if (!hints) return Status::error(Code::no_memory, "out of memory");
    if (!settings.net_interface.empty())
      hints->domain_attr->name = strdup(settings.net_interface.c_str());
    fi_info* found = nullptr;
    if (library_.getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found) != 0)
      continue;
    const Info list(found, InfoDeleter{&library_});
    const fi_info* best = nullptr;
    for (const fi_info* info = found; info != nullptr; info = info->next) {
      if (provider != info->fabric_attr->prov_name || !fits(*info)) continue;
      if (best == nullptr || rank_of(*info) < rank_of(*best)) best = info;
    }
    if (best == nullptr) continue;
    info_ = library_.dupinfo(best);
    if (info_ == nullptr) return Status::error(Code::no_memory, "out of memory");
    name_ = "ofi;" + provider;
    return Status::success();
  }
  std::string wanted = settings.net_provider.empty() ? "tcp" : settings.net_provider;
  if (!settings.net_interface.empty()) wanted += " on " + settings.net_interface;
  return refuse(
      message, "libfabric has no provider " + wanted +
                   " with remote memory access in order (TUTTI_NET_PROVIDER, TUTTI_NET_INTERFACE)");
}

Status OfiNetwork::open_objects(const Settings& settings, std::string* message) {
  TUTTI_TRY(choose(settings, message));
  version_ = library_.version();
  one_write_ = info_->tx_attr->rma_iov_limit >= 2 && info_->tx_attr->iov_limit >= 2;
  virtual_addresses_ = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const bool provider_keys = (info_->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0;
  tags_notices_ = info_->domain_attr->cq_data_size >= sizeof(std::uint64_t);
  registers_sources_ = (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  registers_operations_ = registers_sources_;

  const char* step = "fabric";
  int error = library_.fabric(info_->fabric_attr, &fabric_, nullptr);
  if (error == 0) step = open_lane(first_, &error);
  if (error == 0) {
    // Memory must have one name on both lanes.
    if (settings.p2p == Switch::on) open_second_lane(!registers_sources_ && !provider_keys);
    if (!registrar_
             .open(first_.domain, second_.is_open() ? second_.domain : nullptr, provider_keys,
                   info_->domain_attr->mr_key_size)
             .ok())
      return refuse(message, name_ + ": the kernel gives no random numbers for its keys");
    start(&registrar_, settings.net_timeout_s);
    if (!registers_sources_ || memory_.add_pool()) return Status::success();
    return refuse(message, name_ +
                               " cannot register memory: raise the limit of locked memory "
                               "(ulimit -l)");
  }
  return refuse(message,
                name_ + ": its " + step + " cannot be opened: " + library_.strerror(-error));
}

/// Opens all of it, and adds its address to the own one. Gives the last step, and libfabric's error
/// there.
const char* OfiNetwork::open_lane(Lane& lane, int* error) noexcept {
  fi_av_attr vector{};
  vector.type = FI_AV_TABLE;
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_DATA;
  queue.wait_obj = FI_WAIT_FD;
  const char* step = "";
  const auto next = [&](const char* name, auto&& function) {
    if (*error != 0) return;
    step = name;
    *error = static_cast<int>(function());
  };
  next("domain", [&] { return fi_domain(fabric_, info_, &lane.domain, nullptr); });
  next("address vector", [&] { return fi_av_open(lane.domain, &vector, &lane.vector, nullptr); });
  next("completion queue", [&] { return fi_cq_open(lane.domain, &queue, &lane.queue, nullptr); });
  next("endpoint", [&] { return open_endpoint(lane, &lane.endpoint); });
  next("wait object", [&] { return fi_control(&lane.queue->fid, FI_GETWAIT, &lane.descriptor); });
  return step;
}

/// On a lane, and adds its address to the own one. 0, or libfabric's error.
int OfiNetwork::open_endpoint(const Lane& lane, fid_ep** endpoint) noexcept {
  int error = fi_endpoint(lane.domain, info_, endpoint, nullptr);
  if (error == 0) error = fi_ep_bind(*endpoint, &lane.vector->fid, 0);
  if (error == 0) error = fi_ep_bind(*endpoint, &lane.queue->fid, FI_TRANSMIT | FI_RECV);
  if (error == 0) error = fi_enable(*endpoint);
  std::size_t bytes = NetworkAddress::kBytes - address_.bytes;
  if (error == 0) error = fi_getname(&(*endpoint)->fid, address_.data + address_.bytes, &bytes);
  if (error != 0) return error;
  address_.bytes += static_cast<std::uint32_t>(bytes);
  if (address_bytes_ == 0) address_bytes_ = address_.bytes;
  return 0;
}

/// Without them long reads go with everything else. The layer that makes datagrams of connections
/// has queues and buffers for each endpoint, and keeps pointers to one that was closed.
void OfiNetwork::open_reads() noexcept {
  const std::uint32_t before = address_.bytes;
  const bool has_room = kEndpoints * address_bytes_ <= NetworkAddress::kBytes;
  const bool layered = name_.find("ofi_rxm") != std::string::npos;
  int error = has_room && !layered ? 0 : -FI_ENOSYS;
  for (Reads& reads : reads_) {
    if (error == 0) error = open_endpoint(first_, &reads.endpoint);
  }
  reads_apart_ = error == 0 && address_.bytes == kEndpoints * address_bytes_;
  if (reads_apart_) return;
  log(LogLevel::info, "%s: no endpoints for long reads (%s): those of two ranks wait in one queue",
      name_.c_str(), library_.strerror(-error));
  address_.bytes = before;
}

/// Without one, all that arrives wakes whoever sleeps. `names_memory`: its keys are of our choice.
void OfiNetwork::open_second_lane(bool names_memory) noexcept {
  const std::uint32_t before = address_.bytes;
  const bool has_room = 2 * before <= NetworkAddress::kBytes;
  int error = names_memory && has_room ? 0 : -FI_ENOSYS;
  const char* step = names_memory ? "address" : "keys of memory";
  if (error == 0) step = open_lane(second_, &error);
  if (error == 0) {
    both_ = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    const bool added = epoll_ctl(both_, EPOLL_CTL_ADD, first_.descriptor, &event) == 0 &&
                       epoll_ctl(both_, EPOLL_CTL_ADD, second_.descriptor, &event) == 0;
    if (added && address_.bytes == 2 * before) return open_reads();
    step = "wait object";
  }
  log(LogLevel::info, "%s: no second endpoint (%s): small messages wake progress threads",
      name_.c_str(), step);
  second_.close();
  address_.bytes = before;
}

Status OfiNetwork::open(const Settings& settings, std::unique_ptr<Network>* out,
                        std::string* message) {
  const Library* library = nullptr;
  TUTTI_TRY(open_library(settings.libfabric, &library, message));
  std::unique_ptr<OfiNetwork> network(new (std::nothrow) OfiNetwork(*library));
  if (!network) return Status::error(Code::no_memory, "out of memory");
  TUTTI_TRY(network->open_objects(settings, message));
  *out = std::move(network);
  return Status::success();
}

/// All but its domain, in which memory may still be registered.
void OfiNetwork::Lane::close() noexcept {
  const auto end = [](auto*& object) {
    if (object != nullptr) fi_close(&object->fid);
    object = nullptr;
  };
  end(endpoint);
  end(queue);
  end(vector);
}

void OfiNetwork::abort() noexcept {
  const std::lock_guard lock(mutex_);
  stop();
  if (both_ >= 0) ::close(std::exchange(both_, -1));
  for (Reads& reads : reads_) {
    if (reads.endpoint != nullptr) fi_close(&reads.endpoint->fid);
    reads.endpoint = nullptr;
  }
  first_.close();
  second_.close();
}

OfiNetwork::~OfiNetwork() {
  abort();
  close_memory();
  for (const Lane* lane : {&first_, &second_}) {
    if (lane->domain != nullptr) fi_close(&lane->domain->fid);
  }
  if (fabric_ != nullptr) fi_close(&fabric_->fid);
  if (info_ != nullptr) library_.freeinfo(info_);
}

}  // namespace tutti::ofi
