#include "lab/metronome.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <ctime>

namespace tutti::lab {

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
      if (!take_precedence()) return;
      const timespec beat{0, kBeatNs};
      while (!over_.load(std::memory_order_relaxed)) nanosleep(&beat, nullptr);
    });
  }
}

Metronome::~Metronome() {
  over_.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace tutti::lab
