// What the benchmarks without any protocol share: threads or processes on the first two processors.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

/// Binds the calling thread. Ends the process where there is no such processor.
inline void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("two processors are needed");
    std::exit(1);
  }
}

/// A second process, which shares one object with this one. Each has a processor of its own.
template <class Shared>
struct TwoProcesses {
  Shared* shared;
  int self;     // 0: this process, 1: the second one
  pid_t child;  // of 0

  static TwoProcesses begin() {
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    auto* const shared = new (memory) Shared;
    const pid_t child = fork();
    if (child < 0) fail("fork");
    const int self = child == 0 ? 1 : 0;
    stay_on(self);
    return {shared, self, child};
  }
  /// Of 0, when it is through. The exit status.
  int end() const { return waitpid(child, nullptr, 0) == child ? 0 : 1; }

 private:
  [[noreturn]] static void fail(const char* call) {
    std::perror(call);
    std::exit(1);
  }
};
