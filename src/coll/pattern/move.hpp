// Moving bytes within a rank, at the cost that the fabric charges for it, and memory to move them
// through.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/copy_shared.hpp"
#include "base/status.hpp"
#include "fabric/fabric.hpp"
#include "team/team.hpp"

namespace tutti {

/// Copies, unless the data is in place already or is not carried at all.
inline void place(Team& t, void* destination, const void* source, std::size_t bytes) noexcept {
  if (destination == source || bytes == 0) return;
  t.fabric().spend(Work::copy, bytes);
  if (t.carries(bytes)) copy_small(destination, source, bytes);
}

/// place() into a shared block that others will read.
inline void place_shared(Team& t, void* destination, const void* source,
                         std::size_t bytes) noexcept {
  t.fabric().spend(Work::copy, bytes);
  if (t.carries(bytes)) copy_to_shared(destination, source, bytes);
}

/// get() from memory that this rank's own CPU reads: complete when it returns.
inline Status read_now(Team& t, const Remote& remote, std::size_t offset, void* destination,
                       std::size_t bytes) noexcept {
  Completion completion;
  t.fabric().spend(Work::copy, bytes);
  return t.fabric().get(remote, offset, destination, bytes, &completion);
}

inline std::byte* at(void* base, std::size_t offset) noexcept {
  return static_cast<std::byte*>(base) + offset;
}
inline const std::byte* at(const void* base, std::size_t offset) noexcept {
  return static_cast<const std::byte*>(base) + offset;
}

/// A block of the process's pool as scratch memory, for the life of an algorithm.
class Scratch {
 public:
  explicit Scratch(Team& team) noexcept : team_(team) {}
  ~Scratch() {
    if (memory_ != nullptr) team_.give_scratch(piece_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Status take() noexcept { return team_.take_scratch(&memory_, &piece_); }
  std::byte* memory() const noexcept { return memory_; }
  std::size_t bytes() const noexcept { return team_.block_bytes(); }

 private:
  Team& team_;
  std::byte* memory_ = nullptr;
  Piece piece_;
};

/// Private memory of any size, for vectors that an algorithm must keep whole.
class Temporary {
 public:
  Temporary() = default;
  ~Temporary() { release(); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Status allocate(Team& t, std::size_t bytes) noexcept {
    release();
    if (t.elided() || bytes == 0) bytes = 1;
    // Vectors of data that is only timed are address space: thousands of ranks have one each.
    reserved_ = t.carries(bytes) || t.elided() ? 0 : bytes;
    memory_ = reserved_ == 0 ? std::malloc(bytes) : reserve(bytes);
    return memory_ != nullptr ? Status::success()
                              : Status::error(Code::no_memory, "no memory for a temporary vector");
  }
  void* memory() const noexcept { return memory_; }

 private:
  static void* reserve(std::size_t bytes) noexcept {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  void release() noexcept {
    if (reserved_ == 0) {
      std::free(memory_);
    } else if (memory_ != nullptr) {
      munmap(memory_, reserved_);
    }
    memory_ = nullptr;
  }

  void* memory_ = nullptr;
  std::size_t reserved_ = 0;  // bytes, where it is not malloc's
};

}  // namespace tutti
