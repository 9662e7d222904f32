#include "base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tutti {
namespace {

/// The quota that one cgroup itself has, in cores; 0: none. Version 2, then 1.
double own_quota(const std::string& folder) noexcept {
  double quota = 0, period = 0;
  char text[64];
  if (std::FILE* file = std::fopen((folder + "/cpu.max").c_str(), "re")) {
    if (std::fscanf(file, "%63s %lf", text, &period) == 2 && std::strcmp(text, "max") != 0)
      quota = std::atof(text);
    std::fclose(file);
  } else if (std::FILE* v1 = std::fopen((folder + "/cpu.cfs_quota_us").c_str(), "re")) {
    if (std::fscanf(v1, "%lf", &quota) != 1) quota = 0;
    std::fclose(v1);
    if (std::FILE* v1_period = std::fopen((folder + "/cpu.cfs_period_us").c_str(), "re")) {
      if (std::fscanf(v1_period, "%lf", &period) != 1) period = 0;
      std::fclose(v1_period);
    }
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

bool lists_cpu(const std::string& controllers) {
  return controllers.empty() || ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cgroup_quota(const std::string& groups, const std::string& root) {
  double least = 0;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // NUMBER:CONTROLLERS:PATH
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!lists_cpu(controllers)) continue;
    const std::string mounted = controllers.empty() ? root : root + "/cpu";
    // Whose path is of another namespace has no such folder: then what is mounted is its own.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      const double quota = own_quota(mounted + path);
      if (quota > 0 && (least == 0 || quota < least)) least = quota;
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

int available_cores() noexcept {
  cpu_set_t set;
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  std::ifstream file("/proc/self/cgroup");
  const std::string groups((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  if (const double quota = cgroup_quota(groups, "/sys/fs/cgroup"); quota > 0) {
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
