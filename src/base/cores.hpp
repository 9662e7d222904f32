// How many cores this process may use.
#pragma once

#include <pthread.h>

namespace tutti {

/// Cores of the affinity mask, reduced to the CPU quota of the cgroup (v2 or v1); at least 1.
/// Thread-safe; reads /sys.
int available_cores() noexcept;

/// Lets a thread of this process run on one CPU only. False where there is no such CPU, or this
/// process may not use it. Thread-safe.
bool bind_thread(pthread_t thread, int cpu) noexcept;

}  // namespace tutti
