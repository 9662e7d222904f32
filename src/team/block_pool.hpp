// Shared blocks of one process, used by all its teams: 64 KiB pieces of the own arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "team/arena_heap.hpp"

namespace tutti {

/// Hands out blocks. Teams give them back when all readers have drained them. Never waits for another
/// team's readers: it grows instead (two communicators must not be able to block each other). Under the
/// engine's lock.
class BlockPool {
 public:
  BlockPool(ArenaHeap& heap, std::size_t block_bytes) noexcept : heap_(heap), block_bytes_(block_bytes) {}

  std::size_t block_bytes() const noexcept { return block_bytes_; }

  Status take(std::size_t* offset) noexcept {
    if (!free_.empty()) {
      *offset = free_.back();
      free_.pop_back();
      return Status::success();
    }
    // Blocks of a power of two would all fall into the same sets of the caches: stagger them.
    TUTTI_TRY(heap_.allocate(block_bytes_ + kStagger, offset));
    free_.reserve(++blocks_);
    return Status::success();
  }
  void give(std::size_t offset) noexcept { free_.push_back(offset); }

 private:
  static constexpr std::size_t kStagger = 4096 + 2 * kCacheLine;
  ArenaHeap& heap_;
  std::size_t block_bytes_;
  std::size_t blocks_ = 0;
  std::vector<std::size_t> free_;
};

}  // namespace tutti
