// A process that ends by exit() while other threads of it are inside MPI.
#pragma once

#include <pthread.h>

#include <atomic>

namespace tutti::mpi {

/// The thread that has called exit(); 0: none. Written by that thread, read by all others.
inline std::atomic<pthread_t> ending_thread{0};

/// Whether another thread has called exit(): the libraries that the MPI uses may be gone already.
inline bool another_ends_process() noexcept {
  const pthread_t thread = ending_thread.load(std::memory_order_relaxed);
  return thread != 0 && pthread_equal(thread, pthread_self()) == 0;
}

}  // namespace tutti::mpi
