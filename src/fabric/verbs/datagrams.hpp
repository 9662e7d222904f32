// Multicast by unreliable datagrams of an RDMA device (MCAST-2007): a queue pair for each group.
//
// A group has receives of its own, posted in advance; what finds none is dropped by the device, and
// counted here by the gap in its sender's numbers. A receive is posted again as soon as its
// datagram has been looked at. The device puts the global route header in front of each datagram;
// it is skipped. Groups are joined by the connection manager, which tells the switches (IGMP on
// RoCE, the subnet administrator on InfiniBand).
//
// Other groups may have the same address, so the queue key differs too, and each datagram has the
// keyed checksum of fabric/groups: an Ethernet is open to others.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "fabric/groups/groups.hpp"
#include "fabric/groups/losses.hpp"
#include "fabric/network.hpp"

namespace tutti::verbs {

class VerbsDatagrams final : public NetworkDatagrams {
 public:
  ~VerbsDatagrams() override;

  /// On `port` of `device`, whose interface has the address `source`. `rank`: of the job; `secret`:
  /// the same on all ranks. On failure `*message` says in one line why.
  static Status open(ibv_context* device, std::uint8_t port, const sockaddr_storage& source,
                     int rank, const groups::Secret& secret, std::unique_ptr<NetworkDatagrams>* out,
                     std::string* message);

  Status join(const std::uint64_t id[2], int depth, int* out) noexcept override;
  void leave(int group) noexcept override;
  Status cast(int group, const void* data, std::size_t bytes) noexcept override;
  std::size_t receive(int group, void* out, std::size_t capacity) noexcept override;
  const std::byte* view(int group, std::size_t* bytes) noexcept override;
  void deepen(int group, int depth) noexcept override;
  std::size_t room(int group) const noexcept override;
  const Word& arrivals(int group) const noexcept override;
  Counts counts(int group) const noexcept override;

  std::size_t datagram_bytes() const noexcept override { return mtu_ - groups::kTrailerBytes; }
  const char* place() const noexcept override { return device_->device->name; }
  int descriptor() const noexcept override { return channel_->fd; }
  bool progress() noexcept override;

 private:
  static constexpr int kNone = -1;

  /// Registered memory of so many buffers.
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    ibv_mr* region = nullptr;
  };
  /// A buffer that is posted, filled (in its group's queue), or looked at.
  struct Receive {
    std::byte* at = nullptr;
    std::uint32_t key = 0;
    std::uint32_t bytes = 0;  // that came, without the route header
    int next = kNone;         // filled later
  };
  struct Group {
    std::uint64_t id[2] = {0, 0};
    std::uint32_t serial = 0;  // tells its work from that of a group that was here before
    groups::GroupName name;
    rdma_cm_id* id_of_device = nullptr;
    sockaddr_storage address{};  // of the group
    ibv_ah* way = nullptr;
    std::uint32_t remote_queue = 0;
    std::vector<Slab> slabs;
    std::vector<Receive> receives;
    int first = kNone, last = kNone;  // filled
    int viewed = kNone;
    std::uint32_t number = 0;  // of the next datagram that is cast
    Word arrivals{0};
    Counts counts;
    groups::Losses losses;
  };
  /// A place for a datagram on its way out.
  struct Send {
    std::uint32_t serial = 0;  // of its group; 0: free
    std::uint32_t uses = 0;
  };

  VerbsDatagrams(ibv_context* device, const sockaddr_storage& source, int rank,
                 const groups::Secret& secret) noexcept
      : device_(device),
        source_(source),
        rank_(static_cast<std::uint32_t>(rank)),
        secret_(secret) {}
  Status open_queues(std::uint8_t port, std::string* message);
  Group* at(int group) const noexcept;
  bool add_slab(std::size_t buffers, std::size_t bytes, Slab* out) noexcept;

  // Groups.
  Status make_queue_pair(Group& group) noexcept;
  Status enter(Group& group) noexcept;
  void close(Group& group) noexcept;
  void name_place(Group& group) const noexcept;
  bool add_receives(Group& group, int slot, std::size_t depth) noexcept;
  bool fits_queue(std::size_t more) noexcept;

  // Receiving.
  bool post(Group& group, int slot, int receive) noexcept;
  bool drain() noexcept;
  void fill(const ibv_wc& entry) noexcept;
  const std::byte* next(Group& group, int slot, std::size_t* bytes) noexcept;
  void take_event() noexcept;

  // Sending.
  int free_send() noexcept;
  void collect_sends() noexcept;
  void await_sends(std::uint32_t serial) noexcept;

  ibv_context* const device_;  // librdmacm's
  const sockaddr_storage source_;
  const std::uint32_t rank_;
  const groups::Secret secret_;
  std::size_t mtu_ = 0;
  bool ethernet_ = true;
  std::uint32_t most_receives_ = 0;  // of a group

  std::atomic<int> joined_{0};  // groups, so that progress() costs nothing without any
  mutable std::mutex mutex_;    // of everything below
  rdma_event_channel* events_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* arrived_ = nullptr;
  ibv_cq* sent_ = nullptr;
  bool armed_ = false;      // the next arrival makes an event
  bool event_due_ = false;  // since then something has arrived
  std::size_t posted_ = 0;  // receives of all groups
  std::uint32_t serials_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;
  Slab outgoing_;
  std::vector<Send> sends_;
};

}  // namespace tutti::verbs
