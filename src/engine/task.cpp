#include "engine/task.hpp"

#include <sys/mman.h>

namespace tutti {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

}  // namespace

void* FramePool::take_slab(std::size_t bytes) noexcept {
  if (bytes < kHugePage) return std::malloc(bytes);
  // Only simulations have so many frames.
  void* slab = std::aligned_alloc(kHugePage, bytes);
  if (slab != nullptr) madvise(slab, bytes, MADV_HUGEPAGE);  // where it is refused: small pages
  return slab;
}

}  // namespace tutti
