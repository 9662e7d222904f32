// What travels between two ranks, and how it lies in memory.
//
// A receiver gives each of its senders an inbound area in its own arena: a ring of slots and a ring
// of bytes. A packet of at most kInlineBytes lies in its slot, filled from the bottom, in front of
// the flag (VIA-2003, Figure 2). The data of a larger one lies in whole cache lines of the byte
// ring. Between nodes its header does so too, at the end of the last line, and the packet is one
// put with the slot's flag as the tail. Where the two map each other the header lies in the slot,
// in the line of the flag, which the receiver has to fetch anyhow. The flag says where to look.
// Packets of a pair are numbered, so flags only grow and nothing is reset.
//
// Where the two map each other, an eager message of more than kLeastPart bytes is a train: packets
// one behind the other, each with a part of the data, so that the receiver copies one part while
// the sender fills the next. Over sockets one of more than kMostPayload bytes is a train, too: to
// announce it would take a round trip more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fabric/fabric.hpp"
#include "team/shared_ring.hpp"

namespace tutti::p2p {

enum class PacketKind : std::uint8_t {
  eager,              // envelope and data
  eager_synchronous,  // likewise; the sender wants to hear when it is matched
  request_to_send,    // envelope; data: Key or Announcement, if any. RNDZ_START of RNDV-2006
  clear_to_send,      // to a sender; data: Clearance. RNDZ_REPLY
  data,               // to a receiver: a part of the message, at offset `bytes`
  finished,   // to a sender or a receiver: the transfer is over, with the outcome in `detail`
  withdraw,   // to a receiver: the sender wants to cancel what is not matched yet
  withdrawn,  // to a sender: it was not matched, and is forgotten
  waits,      // to a receiver: the sender of a request to send waits for it inside from now on
  more,       // to a receiver: the next part of the message before, at offset `bytes`
  last,       // to a receiver: no envelopes come after this one
};

/// How the data of a large message moves.
enum class Protocol : std::uint8_t {
  write,           // RDMA Write: RTS, CTS, data, FIN
  read,            // RDMA Read: RTS with address and key, the receiver reads, FIN
  read_interrupt,  // the same, and the RTS wakes the receiver's progress thread
  pipelined,  // through the byte ring, where memory cannot be exposed: RTS, CTS, parts of the data
};

/// In the detail of a request to send, beside the protocol: its sender waits for it inside, and
/// could copy along.
inline constexpr std::uint8_t kSenderWaits = 0x80;
/// Likewise: the kernel is to copy. Alone: the receiver reads all of it, because its sender has
/// something to read, too (Crossings). With kSenderWaits: each may copy one half (Answers).
inline constexpr std::uint8_t kByKernel = 0x40;

struct Header {
  std::uint64_t context[2];  // the group's id
  std::uint32_t source;      // rank of the sender in the group
  std::int32_t tag;
  std::uint64_t bytes;     // of the message; in data, more and clear_to_send: an offset
  std::uint32_t transfer;  // who it is about, at the addressee; in envelopes: at the sender
  std::uint16_t payload;   // bytes of data in this packet
  PacketKind kind;
  std::uint8_t detail;  // Protocol, or Code of the outcome
};
static_assert(sizeof(Header) == 40);
inline Protocol protocol_of(const Header& request_to_send) noexcept {
  return static_cast<Protocol>(request_to_send.detail & ~(kSenderWaits | kByKernel));
}

/// Data of request_to_send, where the receiver may read. Without a head it is left out.
struct Announcement {
  Key key;
  std::uint64_t head;  // of the message, its first bytes come behind this by themselves
};
static_assert(offsetof(Announcement, key) == 0);

/// Data of clear_to_send.
struct Clearance {
  std::uint32_t transfer;  // at the receiver
  std::uint32_t direct;    // the key may be written to; else the data is to be sent in parts
  std::uint64_t bytes;     // that the receiver wants, with those that it has
  Key key;
};

inline constexpr std::uint64_t kSlots = 256;  // a window of sends that programs use, and more
inline constexpr std::size_t kSlotBytes = 320;
inline constexpr std::size_t kInlineBytes = kSlotBytes - sizeof(Word) - sizeof(Header);
/// The byte ring of an area. Within a node and over sockets it is larger where there are few ranks
/// (shared_ring.hpp, far_ring_for()).
inline constexpr std::size_t kRingBytes = std::size_t{128} << 10;
inline constexpr std::size_t kMostRingBytes = std::size_t{4} << 20;
inline constexpr std::size_t kAllRingBytes = std::size_t{8} << 20;  // of all senders of a node
/// `wanted`: a power of two.
constexpr std::size_t inbound_ring_for(std::size_t node_ranks, std::size_t wanted) noexcept {
  std::size_t bytes = std::min(wanted, kMostRingBytes);
  while (bytes > kRingBytes && bytes * node_ranks > kAllRingBytes) bytes /= 2;
  return bytes;
}
/// Over sockets: what is under way at a time must cover a round trip (1 Gbit/s for 1 ms: 128 KiB),
/// the answers that come late, and a window of large messages (16 of 64 KiB and their headers), so
/// that none of them has to be announced. All together take `most` bytes at most, but each
/// kRingBytes.
constexpr std::size_t far_ring_for(std::size_t ranks, std::size_t most) noexcept {
  std::size_t bytes = std::size_t{2} << 20;
  while (bytes > kRingBytes && bytes * ranks > most) bytes /= 2;
  return bytes;
}
// What the other side does not know yet of what has been taken. Together with what it has under way
// there is always room left, so nobody waits for what will never be told.
inline constexpr std::uint64_t kUnacknowledgedPackets = kSlots / 4;
constexpr std::uint64_t unacknowledged_bytes(std::size_t ring) noexcept { return ring / 4; }
constexpr std::size_t inbound_bytes(std::size_t ring) noexcept {
  return kSlots * kSlotBytes + ring;
}
/// Bytes left out behind each packet in a ring that its sender maps: fewer where there is no room.
constexpr std::size_t gap_of(std::size_t ring) noexcept { return std::min(ring / 1024, kRingGap); }
/// Largest payload of one packet: several must fit, or sender and receiver could not work at the
/// same time.
inline constexpr std::size_t kMostPayload = std::size_t{16} << 10;
static_assert(kMostPayload < 1 << 16 && kMostPayload + kCacheLine <= kRingBytes / 4);
/// Parts of a train: a quarter of the message, in whole lines, within these bounds.
inline constexpr std::size_t kLeastPart = std::size_t{4} << 10;
constexpr std::size_t train_part(std::size_t message) noexcept {
  return std::clamp(message / 4 / kCacheLine * kCacheLine, kLeastPart, kMostPayload);
}
/// Largest eager message: a train of it fits into the ring with room to spare.
inline constexpr std::size_t kMostEager = std::size_t{256} << 10;
constexpr std::size_t most_eager(std::size_t ring) noexcept {
  return std::min(ring <= 2 * kRingBytes ? ring / 2 : ring / 4, kMostEager);
}
static_assert(most_eager(kRingBytes) + 2 * kMostPayload <= kRingBytes &&
              kMostEager / train_part(kMostEager) < kSlots / 4);

/// The value of a slot's flag: number of the packet + 1, and where it lies.
struct Flag {
  static constexpr int kShift = 16;
  static constexpr std::uint64_t kWrapped = 1 << 15, kHeaderInSlot = 1 << 14;
  /// `lines` of the byte ring.
  static constexpr std::uint64_t make(std::uint64_t number, std::uint64_t lines, bool wrapped,
                                      bool header_in_slot) noexcept {
    return (number + 1) << kShift | (wrapped ? kWrapped : 0) |
           (header_in_slot ? kHeaderInSlot : 0) | lines;
  }
  /// The least value of the flag of packet `number`.
  static constexpr std::uint64_t least(std::uint64_t number) noexcept {
    return (number + 1) << kShift;
  }
  static constexpr std::uint64_t lines(std::uint64_t flag) noexcept {
    return flag & (kHeaderInSlot - 1);
  }
  static constexpr bool header_in_slot(std::uint64_t flag) noexcept {
    return (flag & kHeaderInSlot) != 0;
  }
  static constexpr bool wrapped(std::uint64_t flag) noexcept { return (flag & kWrapped) != 0; }
};

constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }
/// Cache lines of the byte ring that a packet takes; 0: it fits into its slot.
constexpr std::size_t lines_of(std::size_t payload, bool header_in_slot) noexcept {
  if (payload <= kInlineBytes) return 0;
  const std::size_t bytes = header_in_slot ? payload : padded(payload) + sizeof(Header);
  return (bytes + kCacheLine - 1) / kCacheLine;
}

/// What a sender is told by a receiver, in the sender's arena. Both are written by the receiver
/// alone and only grow.
struct alignas(kCacheLine) CreditLine {
  Word consumed;   // packets that have been taken out of the rings
  Word delivered;  // cost_of() eager messages and heads that a receive has taken
  std::uint64_t
      place;  // offset of this line: what the receiver is told when it is called; the sender's
};

/// What an eager message counts for as long as no receive has taken it.
constexpr std::uint64_t cost_of(std::size_t payload) noexcept { return kCacheLine + payload; }

/// How ranks that have not talked before find each other: a table at the same place in every arena.
/// Rank s that wants to send to r writes into r's table where its credit line is and raises
/// r.calls[s]; r gives it an inbound area and says where in s.answers[r]. 24 bytes per rank of the
/// job.
struct Table {
  std::size_t offset = 0;  // in every arena
  std::size_t ranks = 0;

  static std::size_t bytes(std::size_t ranks) noexcept { return 3 * rounded(ranks); }
  std::size_t calls() const noexcept { return offset; }  // Word[ranks]: 0 or 1
  std::size_t answers() const noexcept {
    return calls() + rounded(ranks);
  }  // Word[ranks]: 1 + offset
  std::size_t places() const noexcept { return calls() + 2 * rounded(ranks); }  // uint64[ranks]

 private:
  static std::size_t rounded(std::size_t ranks) noexcept {
    return (ranks * sizeof(Word) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
};

}  // namespace tutti::p2p
