// A team's multicast group: casts and takes the packets of its broadcasts (MCAST-2007, stage 1).
//
// Nothing here is reliable: what is lost, damaged, late or too early is made good by stage 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.hpp"
#include "fabric/fabric.hpp"
#include "team/cast_watch.hpp"
#include "team/packet.hpp"

namespace tutti {

class Team;
struct Ticket;

class Multicast {
 public:
  /// What became of the packets that arrived.
  struct Counts {
    std::uint64_t taken = 0;     // were fragments of the broadcast that was waited for
    std::uint64_t damaged = 0;   // not a packet, or a wrong CRC
    std::uint64_t stale = 0;     // of a broadcast that is over here
    std::uint64_t early = 0;     // of a later one: kept
    std::uint64_t lost = 0;      // of a later one: no room to keep it
    std::uint64_t repaired = 0;  // fragments that came by the ring instead
  };

  /// Bytes of a fragment that fit one datagram of the fabric; 0 where it has none.
  static std::size_t fragment_bytes(std::size_t datagram_bytes) noexcept {
    return datagram_bytes <= kPacketOverhead ? 0 : datagram_bytes - kPacketOverhead;
  }

  /// `depth`: receives to pre-post. `totals` outlives it.
  Multicast(Team& team, int depth, CastTotals& totals) noexcept;
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  /// Ok where this rank is in the group. A rank that is not receives nothing, which is a loss like
  /// others: stage 2 brings it what it lacks.
  const Status& joined() const noexcept { return joined_; }

  /// Casts a fragment of this epoch's broadcast.
  Status cast(const Ticket& ticket, std::uint32_t sequence, const void* data,
              std::size_t bytes) noexcept;
  /// Takes the next packet of this epoch that has arrived, and copies its data to `base + sequence
  /// * fragment`, if it is one of a message of `total` bytes in such fragments. False when there is
  /// none. `*sequence` is the fragment's number; it may be one that was taken before.
  bool take(const Ticket& ticket, void* base, std::size_t fragment, std::size_t total,
            std::uint32_t* sequence) noexcept;
  /// The same for who places the data himself: the next packet of this epoch, valid until the next
  /// call; nullptr when there is none.
  const MulticastPacket* next(const Ticket& ticket) noexcept;
  /// As Datagrams::deepen() and room(). As many packets of later broadcasts are kept.
  void deepen(int depth) noexcept;
  std::size_t room() const noexcept { return joined_.ok() ? datagrams_->room(group_) : 0; }
  /// Grows when take() may find more.
  const Word& arrivals() const noexcept { return *arrivals_; }
  Counts& counts() noexcept { return counts_; }
  CastWatch& watch() noexcept { return watch_; }
  Datagrams::Counts datagram_counts() const noexcept;

 private:
  struct Kept {
    std::uint64_t broadcast;
    std::vector<std::byte> packet;
  };
  bool place(const MulticastPacket& packet, void* base, std::size_t fragment, std::size_t total,
             std::uint32_t* sequence) noexcept;
  bool next_kept(const Ticket& ticket) noexcept;
  void keep(const MulticastPacket& packet, std::size_t bytes) noexcept;

  Team& team_;
  Datagrams* datagrams_;
  Status joined_;
  int group_ = -1;
  std::size_t depth_;
  Word none_{0};  // of a rank that is not in the group
  const Word* arrivals_ = &none_;
  std::deque<Kept> kept_;          // packets of broadcasts to come, at most `depth_`
  MulticastPacket packet_;         // what next() has given ...
  std::vector<std::byte> unkept_;  // ... and where it lies if it had been kept
  Counts counts_;
  CastWatch watch_;
};

}  // namespace tutti
