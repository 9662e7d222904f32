// Tables of parcels in shared memory: what a member sends to whom, where it lies, and how a
// receiver finds what is for it.
//
// A table is in the sender's small cell (small_table.hpp) or in its large one, with the data if
// they are so few, else in a block of which the small cell says where. Each parcel goes one of
// three ways, which its sender chooses: beside the table; through the ring of chunks at the end of
// the block, while its receiver reads; or not at all: it is read from where it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/collective.hpp"
#include "coll/parcels.hpp"
#include "coll/parcels/small_table.hpp"
#include "coll/pattern/direct.hpp"

namespace tutti::tables {

constexpr std::size_t kCell = Team::kCellCapacity;
constexpr std::size_t kSlots = 2;         // chunks of the ring
constexpr std::size_t kLeastRing = 1024;  // bytes that a block has for data
constexpr std::size_t kNever = ~std::size_t{0};

enum class Way : std::uint32_t { beside, ring, in_place };

/// A parcel, in the table of its sender. By distance.
struct Entry {
  std::uint32_t distance;
  Way way;
  std::uint64_t place;  // in the cell or block; of the ring: the number of its first chunk; in
                        // place: the offset in the region
  std::uint64_t bytes;
};

/// At the beginning of a large cell: entries and data follow.
struct Head {
  std::uint64_t entries;
};

/// A chunk of the ring. Both count chunks, from 1.
struct Slot {
  alignas(kCacheLine) Word filled;  // by the sender
  alignas(kCacheLine) Word taken;   // by the receiver of that chunk: one at a time
};

/// At the beginning of a block. A word for each entry follows, which its receiver sets to 1 when it
/// has read a parcel in place; then the entries, the data beside them, and the ring.
struct Block {
  Slot slots[kSlots];
  Key key;  // of the region in which parcels are read in place
  std::uint64_t ring;
  std::uint64_t chunk;    // bytes of a slot
  std::uint64_t entries;  // how many

  Word* read() noexcept { return reinterpret_cast<Word*>(this + 1); }
  Entry* table() noexcept { return reinterpret_cast<Entry*>(read() + entries); }
  static constexpr std::size_t front(std::size_t entries) noexcept {
    return sizeof(Block) + entries * (sizeof(Word) + sizeof(Entry));
  }
};
static_assert(sizeof(Block) % kCacheLine == 0 && sizeof(Entry) % alignof(Word) == 0);

constexpr std::size_t lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

enum class Table : std::uint8_t { small_cell, cell, block };

/// How this rank's parcels lie in its cell or block.
struct Layout {
  Table table = Table::block;
  std::size_t data = 0;   // where those beside the table begin
  std::size_t most = 0;   // bytes of them that there is room for
  std::size_t ring = 0;   // where the ring begins; its length is what is left
  std::size_t chunk = 0;  // 0: no ring
  std::size_t bytes = 0;  // of the block
  std::size_t least_in_place = kNever;

  Way way(std::size_t parcel, std::size_t used) const noexcept {
    if (parcel >= least_in_place) return Way::in_place;
    return parcel <= most - used ? Way::beside : Way::ring;
  }
};

constexpr std::uint64_t chunks_of(std::size_t bytes, std::size_t chunk) noexcept {
  return (bytes + chunk - 1) / chunk;
}

/// The sender's side, beyond the table.
struct Outgoing {
  Layout layout;
  Block* block = nullptr;
  const Entry* entries = nullptr;
  std::uint64_t chunk = 0;  // the next one of the ring
};

/// What has come for this rank.
struct Incoming {
  bool any = false;
  Entry entry{};
  std::byte* base = nullptr;  // of the cell or block
  Block* block = nullptr;
  Word* read = nullptr;

  std::uint64_t chunks() const noexcept {
    return !any || entry.way != Way::ring ? 0 : chunks_of(entry.bytes, block->chunk);
  }
};

/// `room`: bytes of a block for data, 0: all there are. `least`: bytes of a parcel that is read in
/// place in any case.
Layout lay_out(const Collective& c, std::size_t room, std::size_t least) noexcept;

/// Writes a table that is laid out for the large cell, which must be free, and publishes it.
void write_in_cell(Collective& c, const Layout& l) noexcept;
/// The same in `memory`, a block; the small cell must be free. Parcels that are read in place are
/// exposed by `window`.
Status write_in_block(Collective& c, std::byte* memory, Window* window, Outgoing* out) noexcept;

/// Looks into the table of `member`, which is published, for the parcel number `which` for this
/// rank, which is at `distance`.
Incoming find_parcel(Collective& c, int member, int distance, std::size_t which) noexcept;

}  // namespace tutti::tables
