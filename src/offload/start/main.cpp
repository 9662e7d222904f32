// tutti-dcp: a dedicated collective processor. Started by a process of the program, with a socket
// to it as descriptor 3; says nothing itself, and leaves when the program's processes have.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/cores.hpp"
#include "base/settings.hpp"
#include "core/core.hpp"
#include "offload/start/processors.hpp"
#include "offload/start/socket.hpp"

namespace {

using tutti::Code;
using tutti::Status;
using tutti::offload::Welcome;

constexpr int kSocket = tutti::offload::kSocket;

/// The launcher waits until nobody holds its pipes any more.
void let_go_of_descriptors() {
  const int null = open("/dev/null", O_RDWR);
  for (int descriptor = 0; descriptor < 3 && null >= 0; ++descriptor) dup2(null, descriptor);
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  if (syscall(SYS_close_range, kSocket + 1, ~0u, 0) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);
  for (int descriptor = kSocket + 1; descriptor < most; ++descriptor) close(descriptor);
}

/// CPU number `which` of a set, or -1.
int nth(const cpu_set_t& set, int which) {
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set) && which-- == 0) return cpu;
  }
  return -1;
}

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

/// A CPU that the program's processes leave to this helper, or -1. They leave one where they are
/// bound elsewhere, or where there are more CPUs than processes of both kinds.
int free_cpu(const Welcome& welcome) {
  cpu_set_t all, theirs, free;
  CPU_ZERO(&theirs);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return -1;
  std::memcpy(&theirs, welcome.cpus, sizeof welcome.cpus);
  CPU_ZERO(&free);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all) && !CPU_ISSET(cpu, &theirs)) CPU_SET(cpu, &free);
  }
  if (CPU_COUNT(&free) >= welcome.machine_helpers) return nth(free, welcome.index);
  const int spare = tutti::available_cores() - welcome.machine_ranks;
  return spare >= welcome.machine_helpers ? nth(all, CPU_COUNT(&all) - 1 - welcome.index) : -1;
}

/// Binds this process and chooses how it waits: with a CPU of its own it spins, on a shared one it
/// soon sleeps.
Status settle(const Welcome& welcome, const tutti::Settings& settings) {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);  // the kernel takes those that there are
  static_cast<void>(sched_setaffinity(0, sizeof all, &all));
  int cpu = named_cpu(settings.dcp_cpus, welcome.index);
  if (cpu == -2)
    return Status::error(Code::invalid_argument, "TUTTI_DCP_CPUS is not a list of CPUs (6,7)");
  if (cpu == -1) cpu = free_cpu(welcome);
  if (cpu >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
      return Status::error(Code::invalid_argument, "TUTTI_DCP_CPUS names a CPU that is not there");
  }
  const bool own = cpu >= 0;
  if (settings.wait == tutti::WaitMode::automatic) setenv("TUTTI_WAIT", own ? "spin" : "yield", 1);
  if (settings.spin_us == 0) setenv("TUTTI_SPIN_US", own ? "1000000" : "50", 1);
  return Status::success();
}

Status allgather(void* self, const void* in, void* out, std::size_t bytes) {
  const auto& welcome = *static_cast<const Welcome*>(self);
  const std::uint64_t length = bytes;
  const bool good =
      tutti::offload::write_all(kSocket, &length, sizeof length) &&
      tutti::offload::write_all(kSocket, in, bytes) &&
      tutti::offload::read_all(kSocket, out, bytes * static_cast<std::size_t>(welcome.size));
  return good ? Status::success() : Status::error(Code::peer_lost, "the program has ended");
}

}  // namespace

int main() {
  if (fork() != 0) _exit(0);  // the program's process waits for this one only
  let_go_of_descriptors();
  for (const int ignored : {SIGINT, SIGHUP, SIGPIPE}) signal(ignored, SIG_IGN);
  Welcome welcome{};
  if (!tutti::offload::read_all(kSocket, &welcome, sizeof welcome) ||
      welcome.magic != tutti::offload::kWelcome)
    return 2;
  tutti::Settings settings;
  std::string message;
  if (!load_settings(&settings, &message).ok()) return 3;
  if (!settle(welcome, settings).ok()) return 3;
  tutti::Host host;
  host.rank = welcome.rank;
  host.size = welcome.size;
  host.apps = welcome.apps;
  host.self = &welcome;
  host.allgather = &allgather;
  std::unique_ptr<tutti::Job> job;
  if (!tutti::Job::create(host, false, &job).ok()) return 4;
  job->serve();
  return 0;
}
