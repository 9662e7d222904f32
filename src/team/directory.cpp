#include "team/directory.hpp"

#include <cstddef>
#include <cstring>
#include <new>

namespace tutti {
namespace {

enum : std::uint32_t { kNever = 0, kLive = 1, kRemoved = 2 };

std::uint64_t check_of(std::uint64_t id0, std::uint64_t id1, std::uint64_t offset) noexcept {
  return ((id0 * 0x9e3779b97f4a7c15 ^ id1) * 0xbf58476d1ce4e5b9 ^ offset) * 0x94d049bb133111eb + 1;
}

bool matches(const DirectoryEntry& entry, const std::uint64_t id[2]) noexcept {
  return entry.id[0].load(std::memory_order_relaxed) == id[0] &&
         entry.id[1].load(std::memory_order_relaxed) == id[1];
}

}  // namespace

std::size_t Directory::first_probe(const std::uint64_t id[2]) noexcept {
  const std::uint64_t mixed = (id[0] ^ (id[1] * 0x9e3779b97f4a7c15)) * 0xbf58476d1ce4e5b9;
  return (mixed >> 40) % DirectoryTable::kEntries;
}

std::size_t Directory::place_of(std::size_t index) noexcept {
  return offsetof(DirectoryTable, entries) + index * sizeof(DirectoryEntry);
}

bool Directory::inspect(const void* entries, std::size_t count, const std::uint64_t id[2],
                        std::uint64_t* offset, bool* found) noexcept {
  const auto* bytes = static_cast<const std::byte*>(entries);
  for (std::size_t i = 0; i < count; ++i, bytes += sizeof(DirectoryEntry)) {
    std::uint32_t state;
    std::uint64_t words[4];  // id, offset, check
    std::memcpy(&state, bytes + offsetof(DirectoryEntry, state), sizeof state);
    std::memcpy(words, bytes + offsetof(DirectoryEntry, id), sizeof words);
    if (state == kNever) return false;
    if (state != kLive || words[0] != id[0] || words[1] != id[1]) continue;
    if (words[3] != check_of(words[0], words[1], words[2]))
      return false;  // being written: look again
    *offset = words[2];
    *found = true;
    return true;
  }
  return true;
}

Status Directory::create(Fabric& fabric, Directory* out) noexcept {
  if (fabric.arena().bytes < bytes()) {
    return Status::error(Code::no_memory, "TUTTI_ARENA is too small for the directory");
  }
  TUTTI_TRY(fabric.reserve(0, bytes()));
  // Zero bytes are a valid empty table, and peers may look before this runs: nothing is stored
  // here.
  out->table_ = static_cast<DirectoryTable*>(fabric.arena().base);
  return Status::success();
}

namespace {

// Entries of teams, and of teams with those that are declined: some stay unused, so that looking up
// what is not there ends soon.
constexpr std::size_t kMostTeams = DirectoryTable::kEntries / 8 * 6;
constexpr std::size_t kMostEntries = DirectoryTable::kEntries / 8 * 7;

}  // namespace

Status Directory::enter(const std::uint64_t id[2], std::uint64_t offset,
                        DirectoryEntry** entry) noexcept {
  if (table_->closed.load(std::memory_order_relaxed) != 0)
    return Status::error(Code::no_memory, "too many communicators at once");
  return place(id, offset, kMostTeams, entry);
}

void Directory::decline(const std::uint64_t id[2], DirectoryEntry** entry) noexcept {
  *entry = nullptr;
  if (place(id, kNowhere, kMostEntries, entry).ok()) return;
  table_->closed.store(1, std::memory_order_release);
  grow_version();
}

Status Directory::place(const std::uint64_t id[2], std::uint64_t offset, std::size_t most,
                        DirectoryEntry** entry) noexcept {
  if (live_ >= most) return Status::error(Code::no_memory, "too many communicators at once");
  if (find(*table_, id) != nullptr) return Status::error(Code::invalid_argument, "the team exists");
  std::size_t index = first_probe(id);
  while (table_->entries[index].state.load(std::memory_order_relaxed) == kLive) {
    index = (index + 1) % DirectoryTable::kEntries;
  }
  DirectoryEntry& place = table_->entries[index];
  place.id[0].store(id[0], std::memory_order_relaxed);
  place.id[1].store(id[1], std::memory_order_relaxed);
  place.offset.store(offset, std::memory_order_relaxed);
  place.check.store(check_of(id[0], id[1], offset), std::memory_order_relaxed);
  place.releases.store(0, std::memory_order_relaxed);
  place.state.store(kLive, std::memory_order_release);
  grow_version();
  ++live_;
  *entry = &place;
  return Status::success();
}

void Directory::grow_version() noexcept {
  table_->version.store(table_->version.load(std::memory_order_relaxed) + 1,
                        std::memory_order_release);
}

void Directory::remove(DirectoryEntry& entry) noexcept {
  // Before an entry that was never used, probing may stop, so a removed one can become unused
  // again.
  const auto index = static_cast<std::size_t>(&entry - table_->entries);
  const auto& next = table_->entries[(index + 1) % DirectoryTable::kEntries];
  const bool chain_ends = next.state.load(std::memory_order_relaxed) == kNever;
  entry.state.store(chain_ends ? kNever : kRemoved, std::memory_order_release);
  --live_;
}

Directory::Answer Directory::look_up(DirectoryTable& table, const std::uint64_t id[2],
                                     DirectoryEntry** entry, std::uint64_t* offset) noexcept {
  // Asked before the search: whatever was entered before the table closed is found then.
  const bool closed = table.closed.load(std::memory_order_acquire) != 0;
  *entry = find(table, id);
  if (*entry == nullptr) return closed ? Answer::declined : Answer::none;
  *offset = (*entry)->offset.load(std::memory_order_relaxed);
  return *offset == kNowhere ? Answer::declined : Answer::entered;
}

DirectoryEntry* Directory::find(DirectoryTable& table, const std::uint64_t id[2]) noexcept {
  std::size_t index = first_probe(id);
  for (std::size_t probes = 0; probes < DirectoryTable::kEntries; ++probes) {
    DirectoryEntry& entry = table.entries[index];
    const std::uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == kNever) return nullptr;
    if (state == kLive && matches(entry, id)) return &entry;
    index = (index + 1) % DirectoryTable::kEntries;
  }
  return nullptr;
}

}  // namespace tutti
