// The heap of a rank's own arena: who allocates is always the owner, so this is private
// bookkeeping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/status.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

/// First-fit allocator over [begin, arena end) of the fabric's own arena. Blocks are cache-line
/// aligned and backed by memory (Fabric::reserve) before they are handed out. Under the engine's
/// lock.
class ArenaHeap {
 public:
  ArenaHeap(Fabric& fabric, std::size_t begin) noexcept
      : fabric_(fabric), end_(begin), reserved_(begin) {}

  /// `*offset` is set only on success. The memory is zero when it has never been used before.
  /// `fresh` (may be nullptr) says whether that is so.
  Status allocate(std::size_t bytes, std::size_t* offset, bool* fresh = nullptr) noexcept;
  void free(std::size_t offset, std::size_t bytes) noexcept;

  std::size_t used() const noexcept { return used_; }
  /// Bytes of the arena that are not in use.
  std::size_t left() const noexcept { return fabric_.arena().bytes - used_; }
  std::size_t capacity() const noexcept { return fabric_.arena().bytes; }
  std::size_t reserved() const noexcept { return reserved_; }
  static std::size_t rounded(std::size_t bytes) noexcept { return (bytes + 127) / 128 * 128; }

 private:
  Fabric& fabric_;
  std::map<std::size_t, std::size_t> holes_;  // offset -> bytes, never adjacent
  std::size_t end_;                           // everything from here on was never handed out
  std::size_t reserved_;                      // backed by memory up to here
  std::size_t used_ = 0;
};

}  // namespace tutti
