// Shared memory for messages of one process, used by all its teams: a ring of chunks of the own
// arena, from which pieces are cut one after the other.
//
// Memory that a peer has just read is slow to write again while it is still in that core's cache,
// so pieces walk through the whole ring (shared_ring.hpp), and chunks come back in the order in
// which they were given back. Memory that was never used is slower still: for small pieces, which
// gain little from a large ring, it grows slowly (docs/decisions/0003-blocks.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "team/arena_heap.hpp"
#include "team/board.hpp"
#include "team/shared_ring.hpp"

namespace tutti {

/// A part of a chunk.
struct Piece {
  std::size_t offset = 0;   // in the own arena
  std::uint32_t chunk = 0;  // where it was cut from
};

/// Hands out pieces. Teams give them back when all readers have drained them. Never waits for
/// another team's readers: it grows instead (two communicators must not be able to block each
/// other). Under the engine's lock.
class BlockPool {
 public:
  BlockPool(ArenaHeap& heap, std::size_t block_bytes, std::size_t ring_bytes) noexcept
      : heap_(heap), block_bytes_(block_bytes), ring_chunks_(ring_bytes / block_bytes) {}

  /// The largest piece.
  std::size_t block_bytes() const noexcept { return block_bytes_; }

  /// How much of the arena a piece may come from: what can wait leaves a part to what cannot.
  enum class Part : std::uint8_t { messages, all };

  Status take(std::size_t bytes, Piece* out, Part part = Part::messages) noexcept {
    bytes = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    if (current_ == kNone || bytes > chunks_[current_].left) TUTTI_TRY(next_chunk(bytes, part));
    Chunk& chunk = chunks_[current_];
    *out = Piece{chunk.offset + block_bytes_ - chunk.left, current_};
    chunk.left -= std::min(chunk.left, bytes + ring_gap(bytes));
    ++chunk.pieces;
    ++lent_;
    ++since_growth_;
    return Status::success();
  }
  /// True while pieces have been taken that may come back.
  bool lent() const noexcept { return lent_ != 0; }
  /// More than half of all that there can be is in use, and more than one team has at a time.
  bool scarce() const noexcept {
    const std::size_t left = heap_.left(), kept = left_to_others();
    const std::size_t most = chunks_.size() + (left > kept ? left - kept : 0) / chunk_bytes();
    return in_use_ > kStreamLines && in_use_ > most / 2;
  }
  /// Pieces given back so far.
  std::uint64_t given() const noexcept { return given_; }
  void give(const Piece& piece) noexcept {
    --lent_;
    ++given_;
    Chunk& chunk = chunks_[piece.chunk];
    if (--chunk.pieces == 0 && piece.chunk != current_) put_free(piece.chunk);
  }

 private:
  struct Chunk {
    std::size_t offset;
    std::size_t left;      // bytes not yet cut
    std::uint32_t pieces;  // cut and not given back
    std::uint32_t next_free;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Chunks at multiples of a power of two would all fall into the same sets of the caches.
  static constexpr std::size_t kStagger = 4096 + 2 * kCacheLine;
  /// A ring of this size serves small pieces nearly as well as the whole one.
  static constexpr std::size_t kFirstRing = std::size_t{128} << 10;
  /// From here on a piece takes about as long to copy as its part of a new chunk to set up.
  static constexpr std::size_t kLargePiece = std::size_t{8} << 10;
  /// Smaller ones that pay for a chunk: it takes 11 us, they 0.25 and more each.
  static constexpr std::uint64_t kPiecesPerChunk = 1024;
  /// The part of the arena that messages leave to what later communicators and requests need:
  /// blocks can be waited for, those cannot.
  static constexpr std::size_t kLeftPart = 4;

  std::size_t chunk_bytes() const noexcept { return block_bytes_ + kStagger; }
  std::size_t left_to_others() const noexcept { return heap_.capacity() / kLeftPart; }

  bool grows(std::size_t piece) const noexcept {
    if (first_free_ == kNone) return true;
    if (chunks_.size() >= ring_chunks_) return false;
    return piece >= kLargePiece || chunks_.size() * block_bytes_ < kFirstRing ||
           since_growth_ >= kPiecesPerChunk;
  }
  /// For a piece of `bytes`.
  Status next_chunk(std::size_t bytes, Part part) noexcept {
    const std::uint32_t before = current_;
    if (before != kNone && chunks_[before].pieces == 0) put_free(before);
    if (grows(bytes)) {
      std::size_t offset = 0;
      const Status status = allocate(part, &offset);
      if (status.ok()) {
        current_ = static_cast<std::uint32_t>(chunks_.size());
        chunks_.push_back({offset, block_bytes_, 0, kNone});
        since_growth_ = 0;
        ++in_use_;
        return Status::success();
      }
      if (first_free_ == kNone) return status;
    }
    current_ = first_free_;
    first_free_ = chunks_[current_].next_free;
    chunks_[current_].left = block_bytes_;
    ++in_use_;
    return Status::success();
  }
  Status allocate(Part part, std::size_t* offset) noexcept {
    if (part == Part::messages && chunks_.size() >= ring_chunks_ &&
        heap_.left() < left_to_others() + chunk_bytes())
      return Status::error(Code::no_memory, "the arena is full of messages");
    return heap_.allocate(chunk_bytes(), offset);
  }
  /// Behind the others: a chunk is used again as late as possible.
  void put_free(std::uint32_t chunk) noexcept {
    --in_use_;
    chunks_[chunk].next_free = kNone;
    (first_free_ == kNone ? first_free_ : chunks_[last_free_].next_free) = chunk;
    last_free_ = chunk;
  }

  ArenaHeap& heap_;
  std::size_t block_bytes_;
  std::size_t ring_chunks_;
  std::size_t lent_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t since_growth_ = 0;  // pieces taken
  std::size_t in_use_ = 0;          // chunks with pieces that are out, and the current one
  std::uint32_t current_ = kNone;
  std::vector<Chunk> chunks_;
  std::uint32_t first_free_ = kNone;  // a list through Chunk::next_free
  std::uint32_t last_free_ = kNone;   // meaningful when there is a first
};

}  // namespace tutti
