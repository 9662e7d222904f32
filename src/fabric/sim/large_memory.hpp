// Memory for the objects of very many ranks: zeroed, and backed as it is touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace tutti::sim {

class LargeMemory {
 public:
  LargeMemory() = default;
  ~LargeMemory() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  LargeMemory(LargeMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

  /// Once. False when there is no address space. `dense`: most of it will be used, so large pages
  /// pay; memory that is touched here and there would be full of them.
  bool allocate(std::size_t bytes, bool dense) noexcept {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (dense) madvise(memory, bytes, MADV_HUGEPAGE);
    memory_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
    return true;
  }
  std::byte* data() const noexcept { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::sim
