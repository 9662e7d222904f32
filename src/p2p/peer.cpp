#include "p2p/peer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <new>

#include "base/copy.hpp"
#include "base/copy_shared.hpp"
#include "team/copy_small.hpp"

namespace tutti::p2p {
namespace {

constexpr std::size_t kRing = kSlots * kSlotBytes;  // where the byte ring begins in an area
// Nothing of this wakes a progress thread by itself, so that it stays in order: wake() does, where
// something begins that the thread is there for (RNDV-2006, section 3: selective interrupts).
constexpr Event kEvent = Event::unsolicited;
/// Maps the pages of a ring at once: its memory is reserved, but a first lap would fault on each of
/// them, at both ends. Only a matter of speed, so a kernel that cannot (before 5.14) is let be.
void map_pages(std::byte* begin, std::size_t bytes) noexcept {
#if defined(MADV_POPULATE_WRITE)
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;
#endif
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(begin + bytes);
  static_cast<void>(madvise(reinterpret_cast<void*>(first), end - first, kPopulate));
}

}  // namespace

Status Peer::call() noexcept {
  TUTTI_TRY(site.fabric.arena_of(rank, &arena));
  mapped = static_cast<std::byte*>(arena.mapped);
  std::size_t offset = 0;
  TUTTI_TRY(site.heap.allocate(sizeof(CreditLine), &offset));
  auto* line = new (site.own<CreditLine>(offset)) CreditLine{};
  const auto me = static_cast<std::size_t>(site.fabric.rank());
  line->place = offset;
  const Tail tail{site.table.calls() + me * sizeof(Word), 1};
  const Status status = site.fabric.put(arena, site.table.places() + me * sizeof line->place,
                                        &line->place, sizeof line->place, &tail, nullptr, kEvent);
  if (!status.ok()) {
    site.heap.free(offset, sizeof(CreditLine));
    return status;
  }
  credit = line;
  wake(true);  // it may wait for a large message of a rank that it has not heard of yet
  return status;
}

Status Peer::connect() noexcept {
  const std::uint64_t answered = answer().load(std::memory_order_acquire);
  if (answered == kRefused)
    return Status::error(Code::no_memory, "the peer has no memory for messages");
  const std::size_t at = (answered - 1) / kCacheLine * kCacheLine;
  const std::size_t doubled = answered - 1 - at;
  if (at == 0 ||
      doubled > static_cast<std::size_t>(std::countr_zero(kMostRingBytes / kRingBytes)) ||
      at > arena.bytes || inbound_bytes(kRingBytes << doubled) > arena.bytes - at)
    return Status{Code::corrupt, rank, "the peer names no place for messages"};
  ring_there = kRingBytes << doubled;
  // Sockets take from any memory; a simulated network copies what is not of the arena.
  if (mapped == nullptr && site.far_trains && !site.fabric.traits().virtual_time) {
    own.reset(new (std::nothrow) std::byte[inbound_bytes(ring_there)]);
    if (!own) return Status::error(Code::no_memory, "no memory for messages");
    mirror = own.get();
  } else if (mapped == nullptr) {
    std::size_t offset = 0;
    TUTTI_TRY(site.heap.allocate(inbound_bytes(ring_there), &offset));
    mirror = site.own<std::byte>(offset);
  } else {
    mirror = mapped + at;
    if (!site.fabric.traits().virtual_time) map_pages(mirror, inbound_bytes(ring_there));
  }
  area_there = at;
  return Status::success();
}

/// `packets` of `payload` bytes each.
bool Peer::fits(std::size_t payload, std::uint64_t packets) const noexcept {
  if (sent + packets - consumed > kSlots) return false;
  const std::size_t lines = lines_of(payload, header_in_slot());
  if (lines == 0) return true;
  const std::size_t bytes = lines * kCacheLine + gap();
  const std::uint64_t freed = consumed == 0 ? 0 : slot_end[(consumed - 1) % kSlots];
  const std::size_t place = ring_end % ring_there;
  const std::size_t all = bytes * packets;
  // What is left out at the end of the ring; of several packets, that is less than one of them.
  const std::size_t skipped =
      place + all <= ring_there ? 0 : (packets == 1 ? ring_there - place : bytes);
  return ring_end - freed + skipped + all <= ring_there;
}

bool Peer::room(std::size_t payload) noexcept {
  if (fits(payload, 1)) return true;
  read_credit();
  return fits(payload, 1);
}

/// Over a network it comes when somebody looks.
void Peer::read_credit() noexcept {
  if (mapped == nullptr) site.fabric.progress();
  consumed = credit->consumed.load(std::memory_order_acquire);
}

bool Peer::room_for_message(std::size_t bytes) noexcept {
  const std::size_t part = part_of(bytes);
  if (bytes <= part) return room(bytes);
  const std::uint64_t packets = packets_of(bytes);
  if (fits(part, packets)) return true;
  read_credit();
  return fits(part, packets);
}

Peer::Place Peer::compose(const Header& header, const void* payload,
                          std::optional<Stores> stores) noexcept {
  const std::size_t flag_at = slot_flag(sent);
  const std::size_t lines = lines_of(header.payload, header_in_slot());
  Place place{flag_at - sizeof(Header) - padded(header.payload), flag_at, flag_at, 0};
  bool wrapped = false;
  if (lines != 0) {
    std::size_t at = ring_end % ring_there;
    if (at + lines * kCacheLine > ring_there) {
      ring_end += ring_there - at;
      at = 0;
      wrapped = true;
    }
    place.begin = kRing + at;
    place.end = place.begin + lines * kCacheLine;
    ring_end += lines * kCacheLine + gap();
  }
  site.fabric.spend(Work::copy, header.payload);
  if (mapped != nullptr && stores && header.payload > kSmallCopy) {
    copy_to_shared(mirror + place.begin, payload, header.payload, *stores);
  } else if (mapped != nullptr && header.payload > kSmallCopy) {
    copy_to_shared(mirror + place.begin, payload, header.payload);
  } else {
    copy_small(mirror + place.begin, payload, header.payload);
  }
  if (mapped != nullptr && lines != 0)
    hand_on(mirror + place.begin, mirror + place.end, header.payload);
  const std::size_t header_end = header_in_slot() ? flag_at : place.end;
  std::memcpy(mirror + header_end - sizeof(Header), &header, sizeof(Header));
  slot_end[sent % kSlots] = ring_end;
  place.flag = Flag::make(sent++, lines, wrapped, header_in_slot());
  return place;
}

void Peer::write_in_slot(const Header& header, const void* payload) noexcept {
  std::byte* const flag = mirror + slot_flag(sent);
  site.fabric.spend(Work::copy, header.payload);
  std::byte* const data = flag - sizeof(Header) - padded(header.payload);
  std::byte* const last_line = flag + sizeof(Word) - kCacheLine;
  copy_small(data, payload, header.payload);
  if (data < last_line) hand_on(data, last_line, header.payload);
  std::memcpy(flag - sizeof(Header), &header, sizeof(Header));
  slot_end[sent % kSlots] = ring_end;
  site.fabric.signal(rank, *reinterpret_cast<Word*>(flag), Flag::make(sent, 0, false, true));
  ++sent;
  wake(false);
}

Status Peer::write(const Header& header, const void* payload, bool interrupts,
                   std::optional<Stores> stores) noexcept {
  const Place place = compose(header, payload, stores);
  if (mapped != nullptr) {
    site.fabric.signal(rank, *reinterpret_cast<Word*>(mirror + place.flag_at), place.flag);
    wake(interrupts);
    return Status::success();
  }
  const Tail tail{area_there + place.flag_at, place.flag};
  // The mirror is not written again before the peer has consumed the packet, so no completion is
  // needed.
  TUTTI_TRY(site.fabric.put(arena, area_there + place.begin, mirror + place.begin,
                            place.end - place.begin, &tail, nullptr, kEvent));
  if (interrupts) wake(true);
  return Status::success();
}

Status Peer::write_message(const Header& header, const void* data, bool interrupts,
                           std::optional<Stores> stores) noexcept {
  const std::size_t part = part_of(header.bytes);
  Header packet = header;
  packet.payload = static_cast<std::uint16_t>(std::min<std::size_t>(part, header.bytes));
  if (header.bytes <= part) return write(packet, data, false, stores);
  for (std::size_t offset = 0; offset < header.bytes; offset += part) {
    if (offset != 0) {
      packet.kind = PacketKind::more;
      packet.bytes = offset;
      packet.payload =
          static_cast<std::uint16_t>(std::min<std::size_t>(part, header.bytes - offset));
    }
    const auto* const at = static_cast<const std::byte*>(data) + offset;
    const bool last = offset + part >= header.bytes;
    if (mapped == nullptr) {
      TUTTI_TRY(write(packet, at, interrupts && last));
      continue;
    }
    const Place place = compose(packet, at, stores);
    site.fabric.signal(rank, *reinterpret_cast<Word*>(mirror + place.flag_at), place.flag);
    // A sleeper is told of the first part, so that it works along, and of the last.
    if (offset == 0 || last) wake(false);
  }
  return Status::success();
}

void Peer::wake(bool interrupts) noexcept {
  if (mapped != nullptr && !site.fabric.sleepers()) return;
  site.fabric.wake(rank, interrupts ? Event::solicited : Event::unsolicited);
}

Status Peer::accept() noexcept {
  TUTTI_TRY(site.fabric.arena_of(rank, &arena));
  mapped = static_cast<std::byte*>(arena.mapped);
  const std::uint64_t named = site.own<std::uint64_t>(site.table.places())[rank];
  if (named % kCacheLine != 0 || arena.bytes < sizeof(CreditLine) ||
      named > arena.bytes - sizeof(CreditLine))
    return Status{Code::corrupt, rank, "the peer names no place for what it may send"};
  credit_there = named;
  std::size_t offset = 0;
  bool fresh = false;
  ring = mapped != nullptr ? site.ring : site.far_ring;
  Status status = site.heap.allocate(inbound_bytes(ring), &offset, &fresh);
  while (!status.ok() && ring > kRingBytes)
    status = site.heap.allocate(inbound_bytes(ring /= 2), &offset, &fresh);
  if (status.ok()) {
    area = site.own<std::byte>(offset);
    if (mapped != nullptr && !site.fabric.traits().virtual_time)
      map_pages(area, inbound_bytes(ring));
    for (std::uint64_t slot = 0; !fresh && slot < kSlots; ++slot)
      new (area + slot_flag(slot)) Word(0);
  }
  const auto me = static_cast<std::size_t>(site.fabric.rank());
  const Tail tail{site.table.answers() + me * sizeof(Word),
                  status.ok() ? answer_of(offset, ring) : kRefused};
  TUTTI_TRY(site.fabric.put(arena, 0, nullptr, 0, &tail, nullptr, kEvent));
  return status;
}

bool Peer::front_in_ring(std::uint64_t value, Packet* out) const noexcept {
  const std::size_t lines = Flag::lines(value);
  const std::size_t left_out = Flag::wrapped(value) ? ring - ring_read % ring : 0;
  const std::size_t place = (ring_read + left_out) % ring;
  if (lines * kCacheLine > ring - place) return false;
  const bool apart = Flag::header_in_slot(value);
  out->payload = area + kRing + place;
  out->ring_read = ring_read + left_out + lines * kCacheLine + (apart ? gap_of(ring) : 0);
  const std::byte* const last = out->payload + lines * kCacheLine - sizeof(Header);
  std::memcpy(&out->header, apart ? header_of_slot() : last, sizeof out->header);
  return lines_of(out->header.payload, apart) == lines;
}

void Peer::send_credits() noexcept {
  if (!lost.ok()) return;
  if (delivered != delivered_acknowledged)
    put_credit(credit_there + offsetof(CreditLine, delivered), delivered);
  delivered_acknowledged = delivered;
  if (received != received_acknowledged)
    put_credit(credit_there + offsetof(CreditLine, consumed), received);
  received_acknowledged = received;
  ring_acknowledged = ring_read;
}

void Peer::put_credit(std::size_t word, std::uint64_t value) noexcept {
  if (mapped != nullptr) {
    site.fabric.signal(rank, *reinterpret_cast<Word*>(mapped + word), value);
    wake(streams != 0);  // whoever sends parts needs room to go on
    return;
  }
  const Tail tail{word, value};
  // A peer that is lost is found by those who wait for it.
  static_cast<void>(site.fabric.put(arena, 0, nullptr, 0, &tail, nullptr, kEvent));
  if (streams != 0) wake(true);
}

}  // namespace tutti::p2p
