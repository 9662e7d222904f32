// A network through libfabric (1.17 or later): tcp, and what else offers reliable datagram
// endpoints with remote memory access in the same way.
//
// What software providers do not promise and is made here (measured,
// docs/decisions/0006-networks.md): the counter behind the data is a second part of one write, or a
// second write, always with write-after-write order; who sleeps is woken by the remote data of a
// write that carries a counter. Operations that wait too long for a peer tell that it is lost.
//
// A socket wakes whoever polls it, whatever arrives. So that events can be selective (RNDV-2006),
// there are two lanes where the job sends messages of programs: two endpoints with connections and
// a descriptor each. Unsolicited puts take the second, on which nobody sleeps who waits for
// solicited events alone; a bell on the first tells who needs them that there is something to come
// on the second (docs/decisions/0042-selective-events.md).
//
// Software answers a read on the connection on which it was asked. So that the questions of two
// ranks to each other do not wait behind their answers, long reads have endpoints of their own on
// the first lane, one for those of higher ranks from lower ones and one for the others
// (docs/decisions/0086-reads-both-ways.md).
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
  bool selective() const noexcept override { return second_.is_open(); }
  void consult(PeerHealth& health) noexcept override { health_ = &health; }
  void abort() noexcept override;

 private:
  /// An endpoint and what it needs.
  struct Lane {
    fid_domain* domain = nullptr;
    fid_av* vector = nullptr;
    fid_cq* queue = nullptr;
    fid_ep* endpoint = nullptr;
    int descriptor = -1;
    std::vector<fi_addr_t> places;  // by peer

    bool is_open() const noexcept { return endpoint != nullptr; }
    void close() noexcept;
  };

  /// An endpoint of the first lane for long reads that all go in one direction.
  struct Reads {
    fid_ep* endpoint = nullptr;
    std::vector<fi_addr_t> places;  // by peer
  };
  static constexpr std::uint32_t kEndpoints = 4;  // of a rank that has all of them
  /// Reads of less go with everything else: their answers hold nothing up.
  static constexpr std::size_t kLongRead = std::size_t{64} << 10;

  /// A last notice that has come on one lane.
  struct Half {
    std::uint32_t notice;
    Event way;
  };

  explicit OfiNetwork(const Library& library) noexcept : library_(library) {}
  const char* open_lane(Lane& lane, int* error) noexcept;
  void open_second_lane(bool names_memory) noexcept;
  int open_endpoint(const Lane& lane, fid_ep** endpoint) noexcept;
  void open_reads() noexcept;
  Status open_objects(const Settings& settings, std::string* message);
  Status choose(const Settings& settings, std::string* message);
  bool fits(const fi_info& info) const noexcept;

  Status prepare_for_peers() noexcept override;
  Status register_for_peers(void* base, std::size_t bytes, Registration* region,
                            NetworkMemory* out) noexcept override;
  Status reach(std::int32_t peer) noexcept override;
  Posted post(Operation& operation) noexcept override;
  Moved poll(bool surely) noexcept override;
  bool patient(std::int32_t peer, const Queue& queue, std::uint64_t now) noexcept override;
  void give_up(std::int32_t peer, const char* why) noexcept override;
  int arm(Attention attention) noexcept override;
  bool needs_all() const noexcept override {
    return expected_ != 0 || unsolicited_pending() || !halves_.empty();
  }
  bool parted(std::int32_t peer) const noexcept override {
    return second_.is_open() && endpoints_of(peer) > 1;
  }
  void take_bell(std::uint32_t sender, Event way) noexcept override;

  /// How many it has told of; 1 where its addresses are of another form than the own ones.
  std::uint32_t endpoints_of(std::int32_t peer) const noexcept {
    const std::uint32_t bytes = addresses_[static_cast<std::size_t>(peer)].bytes;
    const std::uint32_t count = bytes / address_bytes_;
    return count * address_bytes_ == bytes && count <= kEndpoints ? count : 1;
  }
  Lane& lane_of(const Operation& operation) noexcept {
    return operation.way == Event::unsolicited ? second_ : first_;
  }
  int post_kind(Operation& operation) noexcept;
  int post_read(Operation& operation) noexcept;
  int post_write(Operation& operation) noexcept;
  int post_message(Operation& operation, bool data, bool counter) noexcept;
  std::uint64_t sealed_notice(std::int32_t to, std::uint64_t notice) const noexcept;
  void take_notice(std::uint64_t data, Event way) noexcept;
  bool complete(std::uint32_t last, Event way) noexcept;
  Moved poll_lane(Lane& lane, Event way) noexcept;
  bool read_errors(Lane& lane) noexcept;

  const Library& library_;
  std::string name_;
  std::uint32_t version_ = 0;
  NetworkAddress address_;
  PeerHealth* health_ = nullptr;  // set before any operation

  // Under the mutex.
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  Lane first_;
  Lane second_;                      // of unsolicited operations; not open: they go with the others
  Reads reads_[2];                   // by the lower rank of a pair, and by the higher one
  bool reads_apart_ = false;         // they go there, where the peer has such endpoints, too
  int both_ = -1;                    // descriptor: readable when either lane's is
  std::uint32_t address_bytes_ = 0;  // of one endpoint
  // By peer: how many more of its bells have come on the first lane than on the second.
  std::vector<std::int32_t> bells_;
  std::vector<Half> halves_;        // at most one for each peer
  std::size_t expected_ = 0;        // peers of which something is still to come on the second lane
  bool one_write_ = false;          // data and counter as two parts of one write
  bool virtual_addresses_ = false;  // peers give addresses, not offsets
  bool tags_notices_ = false;       // there is room for a tag beside a notice
  Registrar registrar_;
  Proof notice_key_;
  std::uint64_t forged_ = 0;  // notices with a wrong tag
};

}  // namespace tutti::ofi
