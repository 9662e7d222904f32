// How many cores this process may use.
#pragma once

#include <pthread.h>

#include <string>

namespace tutti {

/// The lowest quota of processor time of this process's control groups and of those above them, in
/// cores; 0 where there is none. `groups`: what /proc/self/cgroup says; `root`: where they are
/// mounted (/sys/fs/cgroup), of version 2 or of version 1 with its controllers. Thread-safe.
double cgroup_quota(const std::string& groups, const std::string& root);

/// Cores of the affinity mask, reduced to the quota of the control groups; at least 1.
/// Thread-safe; reads /proc and /sys.
int available_cores() noexcept;

/// Lets a thread of this process run on one CPU only. False where there is no such CPU, or this
/// process may not use it. Thread-safe.
bool bind_thread(pthread_t thread, int cpu) noexcept;

}  // namespace tutti
