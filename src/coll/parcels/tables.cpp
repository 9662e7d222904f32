#include "coll/parcels/tables.hpp"

#include <algorithm>
#include <functional>
#include <new>

namespace tutti::tables {
namespace {

/// Parcels that are read in place are exposed as one region: from the lowest to the highest byte.
struct Exposed {
  std::byte *begin = nullptr, *end = nullptr;
  std::size_t used = 0;  // bytes of it that are parcels

  std::size_t bytes() const noexcept {  // parcels of different objects: only as numbers
    return reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin);
  }
  /// Where they lie far apart it would be mostly of others' memory, or of none.
  bool is_dense() const noexcept { return bytes() / 2 <= used; }
};

/// Of the parcels from `least` bytes on.
Exposed region_of(std::span<const Parcel> sent, std::size_t least) noexcept {
  Exposed region;
  for (const Parcel& parcel : sent) {
    if (parcel.bytes < least) continue;
    if (region.used == 0 || std::less<>{}(parcel.data, region.begin)) region.begin = parcel.data;
    region.end = std::max(region.end, parcel.data + parcel.bytes, std::less<>{});
    region.used += parcel.bytes;
  }
  return region;
}

/// Bytes of the parcels below `least`.
std::size_t bytes_below(std::span<const Parcel> sent, std::size_t least) noexcept {
  std::size_t sum = 0;
  for (const Parcel& parcel : sent)
    if (parcel.bytes < least && __builtin_add_overflow(sum, parcel.bytes, &sum)) return kNever;
  return sum;
}

/// From how many bytes on parcels are read in place: fewer than `least` where a block has no `room`
/// for the others, since the ring takes turns. A read is a system call.
std::size_t least_in_place(std::span<const Parcel> sent, std::size_t room,
                           std::size_t least) noexcept {
  constexpr std::size_t kLeastRead = 4096;
  if (least == kNever) return kNever;
  std::size_t lower = least;
  while (lower > kLeastRead && bytes_below(sent, lower) > room) lower /= 2;
  if (region_of(sent, lower).is_dense()) return lower;
  return region_of(sent, least).is_dense() ? least : kNever;
}

/// Bytes of the parcels that go beside the table, into `room`, in order, as Layout::way() says.
std::size_t bytes_beside(std::span<const Parcel> sent, std::size_t room,
                         std::size_t least) noexcept {
  std::size_t used = 0;
  for (const Parcel& parcel : sent)
    if (parcel.bytes < least && parcel.bytes <= room - used) used += parcel.bytes;
  return lines(used);
}

/// Writes the table and what lies beside it. `base`: of the cell or block. Charges for the copies.
void write_table(Collective& c, const Layout& l, const std::byte* region, std::byte* base,
                 Entry* entries) noexcept {
  std::size_t used = 0;
  std::uint64_t chunk = 0;
  for (const Parcel& parcel : c.call.parcels->sent()) {
    const Way way = l.way(parcel.bytes, used);
    const auto distance = static_cast<std::uint32_t>(c.call.parcels->distance_to(parcel));
    Entry& entry = *entries++;
    entry = {distance, way, l.data + used, parcel.bytes};
    switch (way) {
      case Way::beside:
        c.place_shared(base + entry.place, parcel.data, parcel.bytes);
        used += parcel.bytes;
        break;
      case Way::ring:
        entry.place = chunk;
        chunk += chunks_of(parcel.bytes, l.chunk);
        break;
      case Way::in_place:
        entry.place = static_cast<std::uint64_t>(parcel.data - region);
        break;
    }
  }
}

/// Looks for the parcel number `which` at `distance` among the entries of `in`.
void find_entry(Collective& c, const Entry* first, std::uint64_t entries, int distance,
                std::size_t which, Incoming* in) noexcept {
  const auto wanted = static_cast<std::uint32_t>(distance);
  const Entry* const end = first + entries;
  const Entry* const found = std::lower_bound(
      first, end, wanted, [](const Entry& e, std::uint32_t d) { return e.distance < d; });
  if (static_cast<std::size_t>(end - found) <= which || found[which].distance != wanted) return;
  c.team.fabric().look(found + which, sizeof(Entry));
  in->any = true;
  in->entry = found[which];
  if (in->block != nullptr) in->read = in->block->read() + (found + which - first);
}

}  // namespace

Layout lay_out(const Collective& c, std::size_t room, std::size_t least) noexcept {
  const std::span<const Parcel> sent = c.call.parcels->sent();
  Layout l;
  if (SmallTable::suits(c, least)) {
    l.table = Table::small_cell;
    return l;
  }
  const std::size_t table = sizeof(Head) + sent.size() * sizeof(Entry);
  const std::size_t all = bytes_below(sent, kNever);
  if (table <= kCell && all <= kCell - table && bytes_below(sent, least) == all) {
    l.table = Table::cell;
    l.data = table;
    l.most = all;
    return l;
  }
  l.data = lines(Block::front(sent.size()));
  const std::size_t whole = c.team.block_bytes() - l.data;
  room = room == 0 ? whole : std::clamp(room, std::min(kLeastRing, whole), whole);
  l.least_in_place = least_in_place(sent, room, least);
  const std::size_t copied = bytes_below(sent, l.least_in_place);
  const bool rings = copied > room;
  const std::size_t half = room / 2 / kCacheLine * kCacheLine;
  l.most = rings ? bytes_beside(sent, half, l.least_in_place) : copied;
  l.ring = l.data + l.most;
  l.chunk = rings ? (room - l.most) / kSlots / kCacheLine * kCacheLine : 0;
  l.bytes = rings ? l.ring + kSlots * l.chunk : l.data + copied;
  return l;
}

void write_in_cell(Collective& c, const Layout& l) noexcept {
  std::byte* const cell = c.cells().own(kCell);
  const std::size_t entries = c.call.parcels->sent().size();
  auto* const head = new (cell) Head{entries};
  write_table(c, l, nullptr, cell, reinterpret_cast<Entry*>(head + 1));
  c.team.fabric().wrote(cell, l.data);
  c.cells().publish_composed(kCell);
}

Status write_in_block(Collective& c, std::byte* memory, Window* window, Outgoing* out) noexcept {
  const Layout& l = out->layout;
  const std::size_t count = c.call.parcels->sent().size();
  const Exposed region = region_of(c.call.parcels->sent(), l.least_in_place);
  if (region.used != 0) TUTTI_TRY(window->open(region.begin, region.bytes()));
  Block* const block = new (memory) Block{};
  block->key = window->key();
  block->ring = l.ring;
  block->chunk = l.chunk;
  block->entries = count;
  for (std::size_t i = 0; i < count; ++i) new (block->read() + i) Word{0};
  write_table(c, l, region.begin, memory, block->table());
  c.team.fabric().wrote(memory, l.data);
  out->block = block;
  out->entries = block->table();
  SmallTable::publish_block(c, c.stream().offset(memory));
  return Status::success();
}

Incoming find_parcel(Collective& c, int member, int distance, std::size_t which) noexcept {
  Incoming in;
  if (!c.cells().is_published(member, SmallTable::kBytes)) {
    in.base = const_cast<std::byte*>(c.cells().place(member, kCell));
    c.team.fabric().look(in.base, sizeof(Head));
    const auto& head = *reinterpret_cast<const Head*>(in.base);
    find_entry(c, reinterpret_cast<const Entry*>(&head + 1), head.entries, distance, which, &in);
    return in;
  }
  const SmallTable& table = SmallTable::of(c, member);
  if (table.is_here()) {
    const SmallTable::Found found = table.find(distance, which);
    in.any = found.there;
    in.base = const_cast<std::byte*>(c.cells().place(member, SmallTable::kBytes));
    in.entry = {static_cast<std::uint32_t>(distance), Way::beside, found.place, found.bytes};
  } else {
    in.base = c.stream().memory(member, table.block());
    in.block = reinterpret_cast<Block*>(in.base);
    find_entry(c, in.block->table(), in.block->entries, distance, which, &in);
  }
  return in;
}

}  // namespace tutti::tables
