#include "base/task.hpp"

namespace tutti {

// Large pages (madvise) made this slower in simulations of very many ranks, which alone have so
// many frames: docs/simulation.md.
void* FramePool::take_slab(std::size_t bytes) noexcept { return std::malloc(bytes); }

std::coroutine_handle<> Task::fail(Handle handle, Status why) noexcept {
  for (;;) {
    promise_type& promise = handle.promise();
    promise.set_result(why);
    promise.ended = true;
    if (!promise.continuation) return std::noop_coroutine();
    if (promise.asked) return promise.continuation;
    handle = promise.continuation;
  }
}

}  // namespace tutti
