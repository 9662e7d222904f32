#include "base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti {
namespace {

/// The quota of the cgroup in cores, or 0 when there is none. cgroup v2, then v1.
double cgroup_quota() noexcept {
  double quota = 0, period = 0;
  char text[64];
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
    if (std::fscanf(file, "%63s %lf", text, &period) == 2 && std::strcmp(text, "max") != 0) {
      quota = std::atof(text);
    }
    std::fclose(file);
  } else if (std::FILE* v1 = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) {
    if (std::fscanf(v1, "%lf", &quota) != 1) quota = 0;
    std::fclose(v1);
    if (std::FILE* v1_period = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")) {
      if (std::fscanf(v1_period, "%lf", &period) != 1) period = 0;
      std::fclose(v1_period);
    }
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

int available_cores() noexcept {
  cpu_set_t set;
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  if (const double quota = cgroup_quota(); quota > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::floor(quota))));
  }
  return cores;
}

bool bind_thread(pthread_t thread, int cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

}  // namespace tutti
