// A network through libfabric (1.17 or later): tcp, and what else offers reliable datagram
// endpoints with remote memory access in the same way.
//
// What software providers do not promise and is made here (measured,
// docs/decisions/0006-networks.md): the counter behind the data is a second part of one write, or a
// second write, always with write-after-write order; who sleeps is woken by the remote data of a
// write that carries a counter; operations that the provider cannot take yet wait in a queue per
// peer, and those that wait too long tell that the peer is lost.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/network.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/memory.hpp"

namespace tutti::ofi {

class OfiNetwork final : public Network {
 public:
  ~OfiNetwork() override;

  /// Opens an endpoint of the provider that the settings name, or of the best that is there. On
  /// failure
  /// `*message` says in one line what is missing.
  static Status open(const Settings& settings, std::unique_ptr<Network>* out, std::string* message);

  const char* name() const noexcept override { return name_.c_str(); }
  bool bypasses_kernel() const noexcept override {
    return name_.find("tcp") == std::string::npos && name_.find("sockets") == std::string::npos &&
           name_.find("udp") == std::string::npos;
  }
  std::uint32_t version() const noexcept override { return version_; }
  const NetworkAddress& address() const noexcept override { return address_; }
  Status meet(const NetworkAddress* all, int size, int rank,
              const Secret& secret) noexcept override;
  bool listens_at(const NetworkAddress& address, sockaddr_storage* out) const noexcept override;
  void consult(PeerHealth& health) noexcept override { health_ = &health; }
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
  NetworkUse use() noexcept override;
  void abort() noexcept override;

 private:
  enum class Kind : std::uint8_t { put, get, notice };

  /// An operation from its posting until the provider has completed it.
  struct Operation {
    fi_context2 context;  // the provider's, first
    Operation* next;      // in its peer's queue or in the free list
    Completion* completion;
    Completion* abandoned;  // of a read that nobody waits for any more, but that still writes
    std::byte* local;       // source or destination
    std::size_t bytes;
    NetworkTarget target;
    NetworkTarget counter;
    std::uint64_t value;  // of the counter; a notice
    std::unique_ptr<std::byte[]> copy;
    LocalMemory::Use memory;   // how the provider reaches `local`
    std::uint64_t descriptor;  // of this object's own memory
    Kind kind;
    bool counts;     // has a counter
    bool data_sent;  // the data has gone ahead of the counter (where one write cannot carry both)
    std::uint8_t parts;  // writes that the provider has taken and not completed
    Status status;
  };
  struct Slab {
    static constexpr std::size_t kOperations = 64;
    std::unique_ptr<Operation[]> operations;
    Registration registration;
  };
  struct Peer {
    fi_addr_t address = FI_ADDR_UNSPEC;
    Operation* first = nullptr;  // waiting for the provider to take them, in order
    Operation* last = nullptr;
    std::uint64_t blocked_since_ns = 0;
    bool reached = false;  // an operation has succeeded
    bool listed = false;   // in blocked_
  };

  explicit OfiNetwork(const Library& library) noexcept : library_(library) {}
  Status open_objects(const Settings& settings, std::string* message);
  Status choose(const Settings& settings, std::string* message);
  bool fits(const fi_info& info) const noexcept;

  bool add_slab() noexcept;
  int find_memory(Operation& operation) noexcept;
  Operation* make(Kind kind, const NetworkTarget& target, Completion* completion) noexcept;
  Status submit(Operation& operation) noexcept;
  Status find_peer(std::int32_t peer) noexcept;
  int post(Operation& operation) noexcept;
  int post_write(Operation& operation, fi_addr_t to) noexcept;
  int post_message(Operation& operation, fi_addr_t to, bool data, bool counter) noexcept;
  void enqueue(Peer& peer, Operation& operation) noexcept;
  void end(Operation& operation, Status status) noexcept;
  void part_over(Operation& operation, Status status) noexcept;
  bool read_queue() noexcept;
  std::uint64_t sealed_notice(std::int32_t to, std::uint64_t notice) const noexcept;
  void take_notice(std::uint64_t data) noexcept;
  bool read_errors() noexcept;
  void retry() noexcept;
  bool patient(const Peer& peer, std::int32_t rank, std::uint64_t now) const noexcept;
  bool retry(Peer& peer, std::int32_t rank, std::uint64_t now) noexcept;

  const Library& library_;
  std::string name_;
  std::uint32_t version_ = 0;
  NetworkAddress address_;
  std::uint64_t timeout_ns_ = 0;
  PeerHealth* health_ = nullptr;  // set before any operation

  std::mutex mutex_;  // of everything below
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
  bool registers_sources_ = false;  // local memory too must be registered, and named
  Registrar registrar_;
  LocalMemory memory_;
  std::vector<NetworkAddress> addresses_;
  std::int32_t rank_ = -1;
  Proof notice_key_;
  std::vector<Peer> peers_;
  std::vector<std::int32_t> blocked_;  // peers with a queue
  Operation* free_ = nullptr;
  std::vector<Slab> slabs_;
  std::deque<NetworkFinished> finished_;
  std::deque<std::uint32_t> notices_;
  std::uint64_t forged_ = 0;  // notices with a wrong tag
  std::size_t pending_ = 0;
  NetworkUse use_;
};

}  // namespace tutti::ofi
