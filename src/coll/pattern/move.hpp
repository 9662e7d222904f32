// Moving bytes within a rank, at the cost that the fabric charges for it, and memory to move them
// through.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/status.hpp"
#include "coll/collective.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

/// get() from memory that this rank's own CPU reads: complete when it returns.
inline Status read_now(Collective& c, const Remote& remote, std::size_t offset, void* destination,
                       std::size_t bytes) noexcept {
  Completion completion;
  c.team.fabric().spend(Work::copy, bytes);
  return c.team.fabric().get(remote, offset, destination, bytes, &completion);
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
  explicit Scratch(Collective& c) noexcept : team_(c.team) {}
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
  Status allocate(Collective& c, std::size_t bytes) noexcept {
    release();
    if (c.team.elided() || bytes == 0) bytes = 1;
    // Vectors of data that is only timed are address space: thousands of ranks have one each.
    reserved_ = c.team.carries(bytes) || c.team.elided() ? 0 : bytes;
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
