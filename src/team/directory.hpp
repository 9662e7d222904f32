// The directory at the start of every arena: where the shared parts of a rank's teams are.
//
// Its owner enters and removes teams; peers look them up when they meet on their first collective,
// so creating a team costs no communication.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

/// One entry. `state` is written by the owner with release after the other fields; `releases` is
/// incremented by each member of the team that will not touch the owner's memory any more.
struct DirectoryEntry {
  std::atomic<std::uint32_t> state;  // 0 never used, 1 live, 2 removed (probing goes on)
  std::atomic<std::uint32_t> releases;
  std::atomic<std::uint64_t> id[2];
  std::atomic<std::uint64_t> offset;  // of the shared part in the owner's arena
  std::atomic<std::uint64_t>
      check;  // over id and offset: who reads over a network sees words in any order
};

/// As laid out in memory at offset 0 of the arena.
struct DirectoryTable {
  static constexpr std::size_t kEntries = 4096;
  alignas(kCacheLine) Word version;  // grows with every entry made; written by the owner
  Word closed;  // 1: the owner takes part in no team that is not entered; written by the owner
  alignas(kCacheLine) DirectoryEntry entries[kEntries];
};

/// The owner's side.
class Directory {
 public:
  /// Places the table into the own arena, which must be zero there.
  static Status create(Fabric& fabric, Directory* out) noexcept;

  /// Enters a team. Fails with no_memory when the table is full, invalid_argument when the id is
  /// there.
  Status enter(const std::uint64_t id[2], std::uint64_t offset, DirectoryEntry** entry) noexcept;
  /// Says that this rank takes no part in a team: by an entry without a place, and where the table
  /// is full (`*entry` is nullptr then) by closing it for good.
  void decline(const std::uint64_t id[2], DirectoryEntry** entry) noexcept;
  void remove(DirectoryEntry& entry) noexcept;

  /// Looks a team up in a mapped table: none when its owner has said nothing of it (yet), declined
  /// when it takes no part. `*entry` is set where there is one, `*offset` with `entered`.
  enum class Answer : std::uint8_t { none, declined, entered };
  static Answer look_up(DirectoryTable& table, const std::uint64_t id[2], DirectoryEntry** entry,
                        std::uint64_t* offset) noexcept;

  /// For members on other nodes, who read entries with get(): where to begin, and what `count`
  /// entries from `index` on say. `*offset` is set when the team is among them; false when it is
  /// not and probing ends here.
  static std::size_t first_probe(const std::uint64_t id[2]) noexcept;
  static std::size_t place_of(std::size_t index) noexcept;
  static bool inspect(const void* entries, std::size_t count, const std::uint64_t id[2],
                      std::uint64_t* offset, bool* found) noexcept;

  static std::size_t bytes() noexcept { return (sizeof(DirectoryTable) + 4095) / 4096 * 4096; }

 private:
  /// The place of teams that are declined.
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  static DirectoryEntry* find(DirectoryTable& table, const std::uint64_t id[2]) noexcept;
  Status place(const std::uint64_t id[2], std::uint64_t offset, std::size_t most,
               DirectoryEntry** entry) noexcept;
  void grow_version() noexcept;

  DirectoryTable* table_ = nullptr;
  std::size_t live_ = 0;
};

}  // namespace tutti
