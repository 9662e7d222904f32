// Moving bytes within a rank, at the cost that the fabric charges for it, and memory to move them
// through.
#pragma once

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
  if (!t.elided()) copy_small(destination, source, bytes);
}

/// place() into a shared block that others will read.
inline void place_shared(Team& t, void* destination, const void* source,
                         std::size_t bytes) noexcept {
  t.fabric().spend(Work::copy, bytes);
  if (!t.elided()) copy_to_shared(destination, source, bytes);
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
  ~Temporary() { std::free(memory_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Status allocate(Team& t, std::size_t bytes) noexcept {
    memory_ = std::malloc(t.elided() || bytes == 0 ? 1 : bytes);
    return memory_ != nullptr ? Status::success()
                              : Status::error(Code::no_memory, "no memory for a temporary vector");
  }
  void* memory() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace tutti
