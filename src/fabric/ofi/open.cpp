// Choosing a provider and opening its objects.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <new>

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

  fi_av_attr vector{};
  vector.type = FI_AV_TABLE;
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_DATA;
  queue.wait_obj = FI_WAIT_FD;
  const char* step = "fabric";
  int error = library_.fabric(info_->fabric_attr, &fabric_, nullptr);
  const auto next = [&](const char* name, auto&& function) {
    if (error != 0) return;
    step = name;
    error = static_cast<int>(function());
  };
  next("domain", [&] { return fi_domain(fabric_, info_, &domain_, nullptr); });
  next("address vector", [&] { return fi_av_open(domain_, &vector, &vector_, nullptr); });
  next("completion queue", [&] { return fi_cq_open(domain_, &queue, &queue_, nullptr); });
  next("endpoint", [&] { return fi_endpoint(domain_, info_, &endpoint_, nullptr); });
  next("endpoint", [&] { return fi_ep_bind(endpoint_, &vector_->fid, 0); });
  next("endpoint", [&] { return fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV); });
  next("endpoint", [&] { return fi_enable(endpoint_); });
  next("wait object", [&] { return fi_control(&queue_->fid, FI_GETWAIT, &descriptor_); });
  std::size_t bytes = NetworkAddress::kBytes;
  next("address", [&] { return fi_getname(&endpoint_->fid, address_.data, &bytes); });
  address_.bytes = static_cast<std::uint32_t>(bytes);
  if (error == 0) {
    if (!registrar_.open(domain_, provider_keys, info_->domain_attr->mr_key_size).ok())
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

void OfiNetwork::abort() noexcept {
  const std::lock_guard lock(mutex_);
  stop();
  const auto close = [](auto*& object) {
    if (object != nullptr) fi_close(&object->fid);
    object = nullptr;
  };
  close(endpoint_);
  close(queue_);
  close(vector_);
}

OfiNetwork::~OfiNetwork() {
  abort();
  close_memory();
  if (domain_ != nullptr) fi_close(&domain_->fid);
  if (fabric_ != nullptr) fi_close(&fabric_->fid);
  if (info_ != nullptr) library_.freeinfo(info_);
}

}  // namespace tutti::ofi
