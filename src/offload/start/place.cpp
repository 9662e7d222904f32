#include "offload/start/place.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/cores.hpp"
#include "fabric/shm/shm.hpp"
#include "topo/topo.hpp"

namespace tutti::offload {
namespace {

/// The entry of TUTTI_DCP_CPUS for this helper; -1 where there is none, -2 where it is no number.
int named_cpu(const std::string& list, int index) {
  std::vector<int> cpus;
  for (std::size_t at = 0; at < list.size();) {
    char* end = nullptr;
    const long cpu = std::strtol(list.c_str() + at, &end, 10);
    if (end == list.c_str() + at || cpu < 0 || cpu >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
      return -2;
    cpus.push_back(static_cast<int>(cpu));
    at = static_cast<std::size_t>(end - list.c_str()) + 1;
  }
  return cpus.empty() ? -1 : cpus[static_cast<std::size_t>(index) % cpus.size()];
}

/// True when this process may run on no CPU that the program's may.
bool is_apart(const Place& place) {
  cpu_set_t mine, theirs, both;
  CPU_ZERO(&theirs);
  std::memcpy(&theirs, place.cpus, sizeof place.cpus);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return false;
  CPU_AND(&both, &mine, &theirs);
  return CPU_COUNT(&both) == 0;
}

/// A CPU that the program's processes leave to this helper, or -1. They leave one where they are
/// bound elsewhere, or where there are more CPUs than processes of both kinds. All helpers of the
/// machine come to the same list.
int free_cpu(const Place& place) {
  cpu_set_t mine, theirs;
  CPU_ZERO(&theirs);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return -1;
  std::memcpy(&theirs, place.cpus, sizeof place.cpus);
  const CpuSet all = set_of(mine), free = all & ~set_of(theirs);
  const int count = place.machine_helpers;
  const bool enough = static_cast<int>(free.count()) >= count;
  if (!enough && available_cores() - place.machine_ranks < count) return -1;
  const auto cpus = spread_over_packages(read_cpus(), enough ? free : all, count);
  const auto index = static_cast<std::size_t>(place.index);
  return index < cpus.size() ? cpus[index] : -1;
}

}  // namespace

Introduction introduce(const Settings& settings) {
  Introduction me{};
  me.node = shm::node_identity(settings.node);
  me.machine = shm::machine_identity();
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    std::memcpy(me.cpus, &set, std::min(sizeof me.cpus, sizeof set));
  return me;
}

Status settle(const Place& place, const Settings& settings) {
  int cpu = named_cpu(settings.dcp_cpus, place.index);
  if (cpu == -2)
    return Status::error(Code::invalid_argument, "TUTTI_DCP_CPUS is not a list of CPUs (6,7)");
  bool own = cpu >= 0;
  if (!own && is_apart(place)) {
    own = true;  // where the launcher has put it
  } else {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);  // the kernel takes those that there are
    static_cast<void>(sched_setaffinity(0, sizeof all, &all));
    if (!own) cpu = free_cpu(place);
    own = cpu >= 0;
  }
  if (cpu >= 0 && !bind_thread(pthread_self(), cpu))
    return Status::error(Code::invalid_argument, "TUTTI_DCP_CPUS names a CPU that is not there");
  if (settings.wait == WaitMode::automatic) setenv("TUTTI_WAIT", own ? "spin" : "yield", 1);
  if (settings.spin_us == 0) setenv("TUTTI_SPIN_US", own ? "1000000" : "50", 1);
  return Status::success();
}

}  // namespace tutti::offload
