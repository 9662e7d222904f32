#include "mpi/plugin/scratch.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>

namespace tutti::mpi {
namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kLargestKept = std::size_t{16} << 20;  // larger ones go back to the system
constexpr int kKept = 8;

// A few free blocks, any of which may serve. Guarded by `mutex`.
struct Free {
  char* data = nullptr;
  std::size_t capacity = 0;
};
Free free_blocks[kKept];
std::mutex mutex;

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  {
    std::lock_guard lock(mutex);
    for (Free& block : free_blocks) {
      if (block.capacity >= bytes && block.data != nullptr) {
        data_ = std::exchange(block.data, nullptr);
        capacity_ = std::exchange(block.capacity, 0);
        return;
      }
    }
  }
  if (bytes > std::size_t{1} << 62) return;
  const std::size_t capacity = std::bit_ceil(std::max(bytes, kSmallest));
  data_ = static_cast<char*>(std::aligned_alloc(64, capacity));
  if (data_ != nullptr) capacity_ = capacity;
}

Scratch::~Scratch() {
  if (data_ == nullptr) return;
  if (capacity_ <= kLargestKept) {
    std::lock_guard lock(mutex);
    for (Free& block : free_blocks) {
      if (block.data == nullptr) {
        block = {data_, capacity_};
        return;
      }
    }
  }
  std::free(data_);
}

}  // namespace tutti::mpi
