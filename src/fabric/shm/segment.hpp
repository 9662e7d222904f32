// The shared memory of a node: one file without a lasting name, mapped by all its ranks.
//
//   | NodeHeader | NodeSlot per rank | record of each rank | arena of rank 0 | arena of rank 1 |
//   ...
//
// A record is memory that the host may use for what others are to know of its rank also when that
// has ended: the file lasts as long as one rank of the node. Whoever may open the file from outside
// finds records by the header.
//
// Address space is cheap and reserved for all arenas at once; physical memory is reserved piece by
// piece with posix_fallocate before it is used, so that a full /dev/shm or memory limit is a Status
// and never a SIGBUS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "fabric/fabric.hpp"

namespace tutti::shm {

inline constexpr std::uint32_t kLostPlaces = 60;
inline constexpr std::uint32_t kBreakagePlaces = 512;
/// Of a rank's record: what always has memory, and what has some once the rank asks for it.
inline constexpr std::uint32_t kRecordHeadBytes = 16384;
inline constexpr std::uint32_t kRecordBytes = kRecordHeadBytes + 336 * 1024;

/// A Breakage. `what` is written last (release): 1 + code, how far it reaches,
/// 1 + teller, 1 + rank.
struct BreakageRecord {
  std::atomic<std::uint64_t> team[2];
  std::atomic<std::uint64_t> what;
};

/// Written once by the leader before anybody else maps the segment.
struct NodeHeader {
  std::uint64_t magic;
  std::uint64_t arena_bytes;
  std::uint32_t ranks;
  std::uint32_t record_bytes;    // of each rank, in the order of the slots
  std::uint64_t records_offset;  // in the file
  // Ranks that are armed (about to sleep). Written by them with fetch_add; read by every signaller.
  alignas(kCacheLine) Word sleepers;
  // Teams that are broken: a place is taken by fetch_add on the count, then written; read by every
  // rank that waits or begins a collective.
  Word breakages;
  // Ranks of other nodes that a rank of this one has lost: a place is taken by fetch_add on the
  // count, then written (rank + 1); all ranks of the node read them when they look after the health
  // of their peers.
  alignas(kCacheLine) std::atomic<std::uint32_t> lost_count;
  std::atomic<std::int32_t> lost[kLostPlaces];
  alignas(kCacheLine) BreakageRecord broken[kBreakagePlaces];
};

/// Values of NodeSlot::gone.
inline constexpr std::uint32_t kLeft = 1, kDied = 2;

/// One per rank, on cache lines of its own.
struct alignas(2 * kCacheLine) NodeSlot {
  // Set by the owner before and after it sleeps (nesting count); read by whoever rings it.
  std::atomic<std::uint32_t> armed;
  // Those among them that sleep for whatever arrives (Attention::all).
  std::atomic<std::uint32_t> attentive;
  // Futex: incremented by whoever rings; waited on by the owner.
  std::atomic<std::uint32_t> bell;
  // 1 + the rank whose words alone the owner sleeps for, or + Fabric::kAnybody or kNeighbours. Set
  // by the owner before it arms.
  std::atomic<std::uint32_t> awaited;
  // 1 while a thread of the owner sleeps on descriptors instead: then its doorbell is written to as
  // well. Set by the owner.
  std::atomic<std::uint32_t> watching;
  // Set by the owner: its process and when that started (to tell a reused pid).
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> start_time;
  // kLeft is set by the owner when it leaves in good order, kDied by whoever finds it dead. Never
  // reset.
  std::atomic<std::uint32_t> gone;
};

/// A mapping of a node's segment. Unmapped with the object. Not thread-safe.
class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Creates the file of `kind` for `ranks` arenas and maps it. On failure `*message` says in one
  /// line what is too small or refused, and what would help.
  static Status create(SegmentKind kind, int ranks, std::size_t arena_bytes,
                       std::unique_ptr<Segment>* out, std::string* message);
  /// Maps a file received from the leader. Takes the descriptor.
  static Status adopt(int descriptor, std::unique_ptr<Segment>* out);

  NodeHeader& header() const noexcept { return *reinterpret_cast<NodeHeader*>(base_); }
  NodeSlot& slot(int local) noexcept;
  std::byte* arena(int local) noexcept;
  std::size_t arena_bytes() noexcept { return header().arena_bytes; }
  int descriptor() const noexcept { return descriptor_; }

  /// Locks the place of a rank in the file for this process, until that ends. False where the file
  /// system refuses.
  bool hold(int local) noexcept;
  /// Whether another process holds it: it lives, whatever namespaces it is in.
  bool is_held(int local) const noexcept;

  /// Maps the records of all ranks once more, for longer than this object: munmap() ends it.
  /// nullptr where the system refuses.
  std::byte* map_records() const noexcept;
  /// Backs the rest of a record. False where no memory is left.
  bool back_record(int local) noexcept;

  /// Backs a part of an arena with physical memory.
  Status reserve(int local, std::size_t offset, std::size_t bytes) noexcept;

 private:
  Segment() = default;
  Status map(std::size_t bytes) noexcept;

  int descriptor_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Sleeps until nobody holds the place of a rank (Segment::hold) in the file: its process has ended
/// or has left the job. For processes that are no ranks of it. Returns at once where the file
/// system knows no locks.
void wait_until_free(int descriptor, int local) noexcept;

/// The records in the segment of a job that this process is no rank of.
class RecordsFromOutside {
 public:
  ~RecordsFromOutside();
  RecordsFromOutside(const RecordsFromOutside&) = delete;
  RecordsFromOutside& operator=(const RecordsFromOutside&) = delete;

  /// Maps those of the file at `path`, a descriptor of a rank's in /proc, to be read. nullptr where
  /// it is not a segment of this version, or may not be opened.
  static std::unique_ptr<RecordsFromOutside> open(const char* path) noexcept;
  std::uint32_t ranks() const noexcept { return ranks_; }
  const std::byte* record(std::uint32_t local) const noexcept {
    return base_ + local * std::size_t{kRecordBytes};
  }

 private:
  RecordsFromOutside() = default;
  const std::byte* base_ = nullptr;
  std::uint32_t ranks_ = 0;
};

}  // namespace tutti::shm
