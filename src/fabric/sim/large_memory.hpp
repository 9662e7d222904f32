// Memory for the objects of very many ranks: zeroed, and backed as it is touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tutti::sim {

class LargeMemory {
 public:
  LargeMemory() = default;
  ~LargeMemory() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
  }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  LargeMemory(LargeMemory&& other) noexcept
      : mapping_(other.mapping_), mapped_(other.mapped_), memory_(other.memory_) {
    other.mapping_ = nullptr;
  }

  /// Once. `dense`: nearly all of it will be used, so large pages are worth it. False when there is
  /// no address space.
  bool allocate(std::size_t bytes, bool dense = false) noexcept {
    const bool huge = dense && bytes >= kHugePage;
    mapped_ = bytes + (huge ? kHugePage : 0);
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    mapping_ = memory;
    memory_ = static_cast<std::byte*>(memory);
    if (!huge) return true;
    memory_ += (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
    madvise(memory_, bytes, MADV_HUGEPAGE);  // where it is refused: small pages
    return true;
  }
  std::byte* data() const noexcept { return memory_; }

 private:
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* memory_ = nullptr;  // the first large page in it
};

}  // namespace tutti::sim
