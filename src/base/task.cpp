#include "base/task.hpp"

namespace tutti {

// Large pages (madvise) made this slower in simulations of very many ranks, which alone have so
// many frames: docs/simulation.md.
void* FramePool::take_slab(std::size_t bytes) noexcept { return std::malloc(bytes); }

}  // namespace tutti
