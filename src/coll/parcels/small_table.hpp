// What a member publishes of its parcels, in a small cell: the table itself and the data behind it,
// where they are few bytes, or the block where they lie. So a call of a few bytes touches a line or
// two of each sender, and as many calls may be ahead as there are small cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "coll/collective.hpp"
#include "coll/parcels.hpp"

namespace tutti::tables {

class SmallTable {
 public:
  /// Of the cell that holds it.
  static constexpr std::size_t kBytes = kSmallCellBytes - sizeof(Word);

  /// A parcel of it. `place`: in the cell.
  struct Found {
    std::size_t place, bytes;
    bool there;
  };

  /// Whether the parcels are so few and, each of less than `least` bytes, so small.
  static bool suits(const Collective& c, std::size_t least) noexcept {
    const std::span<const Parcel> sent = c.call.parcels->sent();
    std::size_t bytes = sizeof(SmallTable);
    if (c.team.size() > kMostMembers || sent.size() > kBytes / sizeof(Entry)) return false;
    for (const Parcel& parcel : sent) {
      if (parcel.bytes > kBytes || parcel.bytes >= least) return false;
      bytes += sizeof(Entry) + parcel.bytes;
    }
    return bytes <= kBytes;
  }
  /// Into the own cell, which must be free. They must be suitable.
  static void publish(Collective& c) noexcept {
    std::byte* const cell = c.cells().own(kBytes);
    const std::span<const Parcel> sent = c.call.parcels->sent();
    auto* const table = new (cell) SmallTable{sent.size()};
    auto* entry = reinterpret_cast<Entry*>(table + 1);
    std::byte* data = reinterpret_cast<std::byte*>(entry + sent.size());
    for (const Parcel& parcel : sent) {
      *entry++ = {static_cast<std::uint16_t>(c.call.parcels->distance_to(parcel)),
                  static_cast<std::uint16_t>(parcel.bytes)};
      c.place(data, parcel.data, parcel.bytes);
      data += parcel.bytes;
    }
    c.team.fabric().wrote(cell, static_cast<std::size_t>(data - cell));
    c.cells().publish_composed(kBytes);
  }
  /// That another table is in the block at that offset of the arena.
  static void publish_block(Collective& c, std::size_t offset) noexcept {
    std::byte* const cell = c.cells().own(kBytes);
    new (cell) SmallTable{kInBlock + offset};
    c.team.fabric().wrote(cell, sizeof(SmallTable));
    c.cells().publish_composed(kBytes);
  }
  /// What it takes for one alone.
  static std::size_t least_for(std::size_t bytes) noexcept {
    return sizeof(SmallTable) + sizeof(Entry) + bytes;
  }

  /// Of `member`, which has published it.
  static const SmallTable& of(Collective& c, int member) noexcept {
    return *reinterpret_cast<const SmallTable*>(c.cells().data(member, sizeof(SmallTable)));
  }
  /// With the data, in this cell; else in block().
  bool is_here() const noexcept { return where_ < kInBlock; }
  /// Its offset in the arena of the sender.
  std::size_t block() const noexcept { return where_ - kInBlock; }
  /// Where it is here: the parcel number `which` at that distance.
  Found find(int distance, std::size_t which) const noexcept {
    const auto* const entries = reinterpret_cast<const Entry*>(this + 1);
    std::size_t place = sizeof(SmallTable) + where_ * sizeof(Entry);
    for (std::uint64_t i = 0; i < where_; ++i) {
      if (entries[i].distance == distance && which-- == 0) return {place, entries[i].bytes, true};
      place += entries[i].bytes;
    }
    return {0, 0, false};
  }

 private:
  struct Entry {
    std::uint16_t distance, bytes;
  };
  static constexpr int kMostMembers = 1 << 16;
  static constexpr std::uint64_t kInBlock = kBytes;  // more than there can be entries

  explicit SmallTable(std::uint64_t where) noexcept : where_(where) {}

  std::uint64_t where_;  // how many entries follow; from kInBlock on: where else
};

}  // namespace tutti::tables
