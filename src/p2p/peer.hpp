// The connection of this rank with one other: two rings, one in each direction, and what is under
// way.
//
// An inbound area lies in the receiver's arena, and only its sender writes there; the credit line
// lies in the sender's arena, and only the receiver writes there. Where the two map each other the
// data is stored in place; elsewhere it is composed in a mirror of the area and put from there.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "base/demote.hpp"
#include "base/store_choice.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "p2p/answers.hpp"
#include "p2p/balance.hpp"
#include "p2p/crossings.hpp"
#include "p2p/list.hpp"
#include "p2p/packet.hpp"
#include "p2p/small_answers.hpp"
#include "p2p/transfer.hpp"
#include "team/arena_heap.hpp"

namespace tutti::p2p {

/// What all connections of a rank share.
struct Site {
  Engine& engine;
  Fabric& fabric;
  ArenaHeap& heap;
  Table table;
  std::size_t ring = kRingBytes;      // bytes of the ring of an inbound area that its sender maps
  std::size_t far_ring = kRingBytes;  // of one that it does not
  bool far_trains = false;            // between ranks that do not map each other

  template <class T>
  T* own(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(static_cast<std::byte*>(fabric.arena().base) + offset);
  }
};

/// A packet that waits for its turn, with its payload behind it. From the engine's frame pool.
struct Outgoing {
  Header header{};
  Hook<Outgoing> in_queue;

  const std::byte* payload() const noexcept { return reinterpret_cast<const std::byte*>(this + 1); }
};

struct Packet {
  Header header;  // a copy: the sender's process cannot change it while it is looked at
  const std::byte* payload;
  std::uint64_t ring_read;  // how far the byte ring is read with it
};

struct Peer {
  Peer(const Site& its_site, std::int32_t job_rank) noexcept : site(its_site), rank(job_rank) {
    members.belled = true;
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // ---- outgoing

  /// Asks for an inbound area: tells the peer where the credit line is. Once.
  Status call() noexcept;
  bool called() const noexcept { return credit != nullptr; }
  /// Where the peer answers: answer_of() the inbound area, or kRefused.
  Word& answer() const noexcept { return site.own<Word>(site.table.answers())[rank]; }
  static constexpr std::uint64_t kRefused = ~std::uint64_t{0};
  /// An answer: offset of the inbound area (a multiple of cache lines) + 1 + how many times its
  /// ring is twice as large as kRingBytes.
  static std::uint64_t answer_of(std::size_t offset, std::size_t ring) noexcept {
    return offset + 1 + static_cast<std::uint64_t>(std::countr_zero(ring / kRingBytes));
  }
  /// Takes up the answer.
  Status connect() noexcept;
  bool connected() const noexcept { return area_there != 0; }
  /// True when a packet with `payload` bytes may be written now.
  bool room(std::size_t payload) noexcept;
  /// Bytes of an eager message that go into one packet.
  std::size_t part_of(std::size_t bytes) const noexcept {
    return std::min(bytes, mapped == nullptr ? kMostPayload : train_part(bytes));
  }
  /// An eager message may be a train.
  bool trains() const noexcept { return mapped != nullptr || site.far_trains; }
  /// Of which it takes so many.
  std::uint64_t packets_of(std::size_t bytes) const noexcept {
    const std::size_t part = part_of(bytes);
    return bytes <= part ? 1 : (bytes + part - 1) / part;
  }
  /// True when there is room for an eager message, in one packet or a train of them.
  bool room_for_message(std::size_t bytes) noexcept;
  /// True when a message lies in one slot and there is room for it, so that write_in_slot() may
  /// write it.
  bool suits_slot(std::size_t bytes) noexcept {
    if (mapped == nullptr || bytes > kInlineBytes) return false;
    if (sent - consumed < kSlots) [[likely]]
      return true;
    read_credit();
    return sent - consumed < kSlots;
  }
  void write_in_slot(const Header& header, const void* payload) noexcept;
  /// Writes an eager message; there must be room for it. `stores`: where they are chosen already.
  /// `interrupts`: a train wakes a progress thread where it does not come through memory.
  Status write_message(const Header& header, const void* data, bool interrupts,
                       std::optional<Stores> stores = {}) noexcept;
  /// Writes it; there must be room. `interrupts`: wakes a progress thread too.
  Status write(const Header& header, const void* payload, bool interrupts,
               std::optional<Stores> stores = {}) noexcept;
  /// True when the peer has still room for an eager message that it does not expect.
  bool affords(std::size_t payload, std::uint64_t allowance) noexcept {
    const std::uint64_t taken =
        credit == nullptr ? 0 : credit->delivered.load(std::memory_order_relaxed);
    return charged - taken + cost_of(payload) <= allowance;
  }

  // ---- incoming

  Word& called_by() const noexcept { return site.own<Word>(site.table.calls())[rank]; }
  bool accepted() const noexcept { return area != nullptr; }
  /// Gives the peer an inbound area. After its call.
  Status accept() noexcept;
  Word& flag() const noexcept { return *reinterpret_cast<Word*>(area + slot_flag(received)); }
  bool arrived() const noexcept {
    return flag().load(std::memory_order_acquire) >= Flag::least(received);
  }
  /// The packet that has arrived; it stays. False where what lies there is none.
  bool front(Packet* out) const noexcept {
    const std::uint64_t value =
        flag().load(std::memory_order_relaxed);  // arrived() has acquired it
    if (Flag::lines(value) != 0) return front_in_ring(value, out);
    std::memcpy(&out->header, header_of_slot(), sizeof out->header);
    if (out->header.payload > kInlineBytes) return false;
    out->payload = header_of_slot() - padded(out->header.payload);
    out->ring_read = ring_read;
    return true;
  }
  /// Done with the front packet: its place may be reused.
  void pop(const Packet& front) noexcept {
    ring_read = front.ring_read;
    ++received;
    if (received - received_acknowledged >= kUnacknowledgedPackets ||
        ring_read - ring_acknowledged >= unacknowledged_bytes(ring))
      send_credits();
  }
  /// A receive has taken an eager message, or a head.
  void deliver(std::size_t payload) noexcept {
    delivered += cost_of(payload);
    if (delivered - delivered_acknowledged >= unacknowledged_bytes(kRingBytes)) send_credits();
  }
  /// Tells the peer how far this side is, as far as it does not know yet.
  void send_credits() noexcept;

  /// Nobody waits for the peer at present, or somebody does.
  void add_open(Transfer& transfer) noexcept {
    open.push_back(transfer);
    transfer.open = true;
    members.background = false;
  }
  void remove_open(Transfer& transfer) noexcept {
    open.remove(transfer);
    transfer.open = false;
    members.background = open.empty();
  }
  /// The transfer is over: what arrives of it from now on is not taken.
  void forget(Transfer& transfer) noexcept {
    if (train.receive == &transfer) {
      train.receive = nullptr;
      deliver(train.header.bytes);
    }
    if (transfer.streaming) {
      --streams;
      stream_bytes -= transfer.wanted;
      transfer.streaming = false;
    }
  }
  /// Nothing waits for its turn, so that what is written now arrives behind all that was sent
  /// before.
  bool clear_way() const noexcept { return queue.empty() && connected(); }

  static constexpr std::size_t slot_flag(std::uint64_t number) noexcept {
    return number % kSlots * kSlotBytes + kSlotBytes - sizeof(Word);
  }

  const Site& site;
  const std::int32_t rank;  // in the job
  Membership members{&rank, 1, {}, true};
  Status lost;                              // why it cannot be reached any more
  Remote arena;                             // its arena
  std::byte* mapped = nullptr;              // where that is mapped, or nullptr
  bool readable = false;                    // so, and its memory has been read
  List<Transfer, &Transfer::in_peer> open;  // unfinished ones that depend on it
  Task listening;                           // takes packets from it
  Task flushing;                            // writes what waits in the queue

  List<Outgoing, &Outgoing::in_queue> queue;
  Word emptied{0};                      // times that the queue has become empty; local
  CreditLine* credit = nullptr;         // in the own arena
  std::size_t area_there = 0;           // offset of the inbound area in its arena
  std::byte* mirror = nullptr;          // of that area, or where it is mapped
  std::unique_ptr<std::byte[]> own;     // the mirror, if a network may take from any memory
  std::uint64_t sent = 0;               // packets written
  std::size_t ring_there = kRingBytes;  // bytes of the ring there
  std::uint64_t ring_end = 0;  // bytes of the ring used so far, with those left out at its end
  std::uint64_t slot_end[kSlots] = {};  // ring_end after each of the last packets
  std::uint64_t consumed = 0;           // credit->consumed as last seen
  std::uint64_t charged = 0;            // cost of the eager messages and heads sent
  Answers answers;                      // where it is mapped
  SmallAnswers small_answers;           // likewise
  Crossings crossings;                  // likewise
  Balance balance;                      // likewise
  bool said_last = false;               // it knows that nothing more is sent to it

  std::byte* area = nullptr;      // inbound, in the own arena
  std::size_t ring = kRingBytes;  // bytes of its ring
  Train train;                    // the eager message or head whose parts are arriving
  std::size_t credit_there = 0;   // offset of its credit line in its arena
  std::uint64_t received = 0;     // packets taken
  std::uint64_t ring_read = 0;
  std::uint64_t ring_acknowledged = 0;
  std::uint64_t received_acknowledged = 0;  // of these, it knows
  std::uint64_t delivered = 0;
  std::uint64_t delivered_acknowledged = 0;
  std::uint32_t streams = 0;     // messages that come in parts at present
  std::size_t stream_bytes = 0;  // of all of them
  bool heard_last = false;       // it sends no envelopes any more

 private:
  bool fits(std::size_t payload, std::uint64_t packets) const noexcept;
  void read_credit() noexcept;
  const std::byte* header_of_slot() const noexcept {
    return area + slot_flag(received) - sizeof(Header);
  }
  bool front_in_ring(std::uint64_t value, Packet* out) const noexcept;
  /// Where the next packet goes, in the mirror, and the value of its flag. `begin` to `end`: what
  /// has to be put, where that is not mapped.
  struct Place {
    std::size_t begin, end, flag_at;
    std::uint64_t flag;
  };
  bool header_in_slot() const noexcept { return mapped != nullptr; }
  std::size_t gap() const noexcept { return mapped == nullptr ? 0 : gap_of(ring_there); }
  Place compose(const Header& header, const void* payload, std::optional<Stores> stores) noexcept;
  /// Of a packet of `bytes`, the lines of [begin, end) have been written in mapped memory.
  void hand_on(const std::byte* begin, const std::byte* end, std::size_t bytes) noexcept {
    if (site.fabric.traits().demotes && bytes <= Balance::kMost &&
        (bytes <= kInlineBytes || balance.even(sent, received)))
      demote(begin, end);
  }
  void wake(bool interrupts) noexcept;
  void put_credit(std::size_t word, std::uint64_t value) noexcept;
};

}  // namespace tutti::p2p
