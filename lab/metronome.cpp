#include "lab/metronome.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace tutti::lab {

namespace {

/// Clock ticks that processor `cpu` has been idle since the start; -1: not known.
long idle_ticks(int stat, int cpu) {
  char text[16384];
  const ssize_t count = pread(stat, text, sizeof text - 1, 0);
  if (count <= 0) return -1;
  text[count] = 0;
  char name[16];
  std::snprintf(name, sizeof name, "cpu%d ", cpu);
  const char* const line = std::strstr(text, name);
  long idle = 0;
  if (line == nullptr || std::sscanf(line, "%*s %*d %*d %*d %ld", &idle) != 1) return -1;
  return idle;
}

void beat(int cpu, const std::atomic<bool>& over) {
  const int stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  const long part = sysconf(_SC_CLK_TCK) * Metronome::kLookNs / 1'000'000'000 / 5;  // a fifth
  long before = idle_ticks(stat, cpu), interval = Metronome::kBeatNs;
  while (!over.load(std::memory_order_relaxed)) {
    const timespec pause{0, interval};
    for (long beats = Metronome::kLookNs / interval; beats != 0; --beats)
      nanosleep(&pause, nullptr);
    const long now = idle_ticks(stat, cpu);
    interval = before >= 0 && now - before >= part ? Metronome::kSlowBeatNs : Metronome::kBeatNs;
    before = now;
  }
  if (stat >= 0) close(stat);
}

}  // namespace

bool take_precedence() {
  prctl(PR_SET_TIMERSLACK, 1UL);
  const sched_param parameters{1};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0) return true;
  setpriority(PRIO_PROCESS, 0, -20);
  return false;
}

Metronome::Metronome() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    threads_.emplace_back([this, cpu] {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(cpu, &own);
      sched_setaffinity(0, sizeof own, &own);
      if (take_precedence()) beat(cpu, over_);
    });
  }
}

Metronome::~Metronome() {
  over_.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads_) thread.join();
}

Wakefulness::Wakefulness() : request_(open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC)) {
  const std::int32_t at_once = 0;  // us
  if (request_ >= 0) static_cast<void>(!write(request_, &at_once, sizeof at_once));
}

Wakefulness::~Wakefulness() {
  if (request_ >= 0) close(request_);
}

}  // namespace tutti::lab
