#include "p2p/peer.hpp"

#include <new>

#include "base/copy.hpp"
#include "team/copy_small.hpp"

namespace tutti::p2p {
namespace {

constexpr std::size_t kRing = kSlots * kSlotBytes;  // where the byte ring begins in an area
// What the other side does not know yet of what has been taken. Together with what it has under way
// there is always room left, so nobody waits for what will never be told.
constexpr std::uint64_t kUntoldPackets = kSlots / 4;
constexpr std::uint64_t kUntoldBytes = kRingBytes / 4;

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
                                        &line->place, sizeof line->place, &tail, nullptr);
  if (!status.ok()) {
    site.heap.free(offset, sizeof(CreditLine));
    return status;
  }
  credit = line;
  return status;
}

Status Peer::connect() noexcept {
  const std::uint64_t answered = answer().load(std::memory_order_acquire);
  if (answered == kRefused)
    return Status::error(Code::no_memory, "the peer has no memory for messages");
  if (mapped == nullptr) {
    std::size_t offset = 0;
    TUTTI_TRY(site.heap.allocate(kInboundBytes, &offset));
    mirror = site.own<std::byte>(offset);
  } else {
    mirror = mapped + (answered - 1);
  }
  area_there = answered - 1;
  return Status::success();
}

bool Peer::fits(std::size_t payload) const noexcept {
  if (sent - consumed >= kSlots) return false;
  const std::size_t bytes = lines_of(payload) * kCacheLine;
  if (bytes == 0) return true;
  const std::uint64_t freed = consumed == 0 ? 0 : slot_end[(consumed - 1) % kSlots];
  const std::size_t place = ring_end % kRingBytes;
  const std::size_t skipped = place + bytes > kRingBytes ? kRingBytes - place : 0;
  return ring_end - freed + skipped + bytes <= kRingBytes;
}

bool Peer::room(std::size_t payload) noexcept {
  if (fits(payload)) return true;
  consumed = credit->consumed.load(std::memory_order_acquire);
  return fits(payload);
}

Status Peer::write(const Header& header, const void* payload, bool interrupts) noexcept {
  const std::size_t flag_at = slot_flag(sent);
  const std::size_t lines = lines_of(header.payload);
  std::size_t begin = flag_at - sizeof(Header) - padded(header.payload);
  std::size_t end = flag_at;
  bool wrapped = false;
  if (lines != 0) {
    std::size_t place = ring_end % kRingBytes;
    if (place + lines * kCacheLine > kRingBytes) {
      ring_end += kRingBytes - place;
      place = 0;
      wrapped = true;
    }
    begin = kRing + place;
    end = begin + lines * kCacheLine;
    ring_end += lines * kCacheLine;
  }
  site.fabric.spend(Work::copy, header.payload);
  copy_small(mirror + begin, payload, header.payload);
  std::memcpy(mirror + end - sizeof(Header), &header, sizeof(Header));
  slot_end[sent % kSlots] = ring_end;
  const std::uint64_t value = Flag::make(sent++, lines, wrapped);
  if (mapped != nullptr) {
    site.fabric.signal(rank, *reinterpret_cast<Word*>(mirror + flag_at), value);
    wake(interrupts);
    return Status::success();
  }
  const Tail tail{area_there + flag_at, value};
  // The mirror is not written again before the peer has consumed the packet, so no completion is
  // needed.
  TUTTI_TRY(
      site.fabric.put(arena, area_there + begin, mirror + begin, end - begin, &tail, nullptr));
  if (interrupts) site.fabric.ring(rank);
  return Status::success();
}

void Peer::wake(bool interrupts) noexcept {
  if (!site.fabric.sleepers()) return;
  if (!interrupts) {
    // A progress thread is left alone: selective interrupts (RNDV-2006).
    const auto* attention =
        reinterpret_cast<const std::atomic<std::uint32_t>*>(mapped + site.table.attention());
    if (attention->load(std::memory_order_relaxed) == 0) return;
  }
  site.fabric.ring(rank);
}

Status Peer::accept() noexcept {
  TUTTI_TRY(site.fabric.arena_of(rank, &arena));
  mapped = static_cast<std::byte*>(arena.mapped);
  credit_there = site.own<std::uint64_t>(site.table.places())[rank];
  std::size_t offset = 0;
  bool fresh = false;
  const Status status = site.heap.allocate(kInboundBytes, &offset, &fresh);
  if (status.ok()) {
    area = site.own<std::byte>(offset);
    for (std::uint64_t slot = 0; !fresh && slot < kSlots; ++slot)
      new (area + slot_flag(slot)) Word(0);
  }
  const auto me = static_cast<std::size_t>(site.fabric.rank());
  const Tail tail{site.table.answers() + me * sizeof(Word), status.ok() ? offset + 1 : kRefused};
  TUTTI_TRY(site.fabric.put(arena, 0, nullptr, 0, &tail, nullptr));
  return status;
}

Packet Peer::front() noexcept {
  const std::uint64_t value = flag().load(std::memory_order_relaxed);  // arrived() has acquired it
  const std::size_t lines = Flag::lines(value);
  if (lines == 0) {
    const auto* header =
        reinterpret_cast<const Header*>(area + slot_flag(received) - sizeof(Header));
    return {*header, reinterpret_cast<const std::byte*>(header) - padded(header->payload)};
  }
  if (Flag::wrapped(value)) ring_read += kRingBytes - ring_read % kRingBytes;
  const std::byte* begin = area + kRing + ring_read % kRingBytes;
  ring_read += lines * kCacheLine;
  return {*reinterpret_cast<const Header*>(begin + lines * kCacheLine - sizeof(Header)), begin};
}

void Peer::pop() noexcept {
  ++received;
  if (received - told >= kUntoldPackets || ring_read - ring_told >= kUntoldBytes) tell_credits();
}

void Peer::deliver(std::size_t payload) noexcept {
  delivered += cost_of(payload);
  if (delivered - told_delivered >= kUntoldBytes) tell_credits();
}

void Peer::tell_credits() noexcept {
  if (!lost.ok()) return;
  if (delivered != told_delivered) tell(credit_there + offsetof(CreditLine, delivered), delivered);
  told_delivered = delivered;
  if (received != told) tell(credit_there + offsetof(CreditLine, consumed), received);
  told = received;
  ring_told = ring_read;
}

void Peer::tell(std::size_t word, std::uint64_t value) noexcept {
  if (mapped != nullptr) {
    site.fabric.signal(rank, *reinterpret_cast<Word*>(mapped + word), value);
    wake(streams != 0);  // whoever sends parts needs room to go on
    return;
  }
  const Tail tail{word, value};
  // A peer that is lost is found by those who wait for it.
  static_cast<void>(site.fabric.put(arena, 0, nullptr, 0, &tail, nullptr));
}

}  // namespace tutti::p2p
