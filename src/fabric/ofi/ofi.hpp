// A network through libfabric (1.17 or later): tcp, and what else offers reliable datagram
// endpoints with remote memory access in the same way.
//
// What software providers do not promise and is made here (measured,
// docs/decisions/0006-networks.md): the counter behind the data is a second part of one write, or a
// second write, always with write-after-write order; who sleeps is woken by the remote data of a
// write that carries a counter. Operations that wait too long for a peer tell that it is lost.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/memory.hpp"
#include "fabric/queued/queued.hpp"

namespace tutti::ofi {

class OfiNetwork final : public QueuedNetwork {
 public:
  ~OfiNetwork() override;

  /// Opens an endpoint of the provider that the settings name, or of the best that is there. On
  /// failure
  /// `*message` says in one line what is missing.
  static Status open(const Settings& settings, std::unique_ptr<Network>* out, std::string* message);

  static constexpr FabricDescription describe() noexcept {
    return {"ofi", "ranks of different nodes, by libfabric (opened when a job has several nodes)"};
  }
  const char* name() const noexcept override { return name_.c_str(); }
  bool bypasses_kernel() const noexcept override {
    return name_.find("tcp") == std::string::npos && name_.find("sockets") == std::string::npos &&
           name_.find("udp") == std::string::npos;
  }
  std::uint32_t version() const noexcept override { return version_; }
  const NetworkAddress& address() const noexcept override { return address_; }
  bool listens_at(const NetworkAddress& address, sockaddr_storage* out) const noexcept override;
  void consult(PeerHealth& health) noexcept override { health_ = &health; }
  int descriptor() const noexcept override { return descriptor_; }
  void abort() noexcept override;

 private:
  explicit OfiNetwork(const Library& library) noexcept : library_(library) {}
  Status open_objects(const Settings& settings, std::string* message);
  Status choose(const Settings& settings, std::string* message);
  bool fits(const fi_info& info) const noexcept;

  Status prepare_for_peers() noexcept override;
  Status register_for_peers(void* base, std::size_t bytes, Registration* region,
                            NetworkMemory* out) noexcept override;
  Status reach(std::int32_t peer) noexcept override;
  Posted post(Operation& operation) noexcept override;
  bool poll(bool surely) noexcept override;
  bool patient(std::int32_t peer, const Queue& queue, std::uint64_t now) noexcept override;
  void give_up(std::int32_t peer, const char* why) noexcept override { fail_queue(peer, why); }
  bool arm() noexcept override;

  int post_kind(Operation& operation) noexcept;
  int post_write(Operation& operation, fi_addr_t to) noexcept;
  int post_message(Operation& operation, fi_addr_t to, bool data, bool counter) noexcept;
  std::uint64_t sealed_notice(std::int32_t to, std::uint64_t notice) const noexcept;
  void take_notice(std::uint64_t data) noexcept;
  bool read_errors() noexcept;

  const Library& library_;
  std::string name_;
  std::uint32_t version_ = 0;
  NetworkAddress address_;
  PeerHealth* health_ = nullptr;  // set before any operation

  // Under the mutex.
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* vector_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int descriptor_ = -1;
  bool one_write_ = false;          // data and counter as two parts of one write
  bool virtual_addresses_ = false;  // peers give addresses, not offsets
  bool tags_notices_ = false;       // there is room for a tag beside a notice
  Registrar registrar_;
  Proof notice_key_;
  std::vector<fi_addr_t> places_;  // by peer
  std::uint64_t forged_ = 0;       // notices with a wrong tag
};

}  // namespace tutti::ofi
