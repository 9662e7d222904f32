// The progress thread: looks after non-blocking operations while the application computes or sits
// in a native call of its MPI. It exists from the first such operation on, sleeps in the kernel
// whenever nothing is pending or the application itself is polling, and never calls the host MPI.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace tutti {

class Background;
class Engine;

class ProgressThread {
 public:
  /// Starts the thread, on `cpu`, or where that is < 0 on any CPU of `home`: not on those of the
  /// caller, which a program may have bound to a core to compute there. Where the system refuses a
  /// thread, operations progress only inside tutti's calls, which is said once in the log.
  ProgressThread(Engine& engine, const cpu_set_t& home, int cpu) noexcept;
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Something is pending now. Costs a system call only when the thread sleeps for lack of work.
  void wake() noexcept;
  /// To one CPU, or back home (`cpu` < 0).
  void bind(int cpu) noexcept;

 private:
  static void* entry(void* self) noexcept;
  void run() noexcept;
  bool has_work() const noexcept;
  void wait_for_work() noexcept;
  void progress_once() noexcept;

  Engine& engine_;
  Background& background_;
  pthread_t thread_{};
  bool started_ = false;
  cpu_set_t home_;
  std::atomic<std::uint32_t> work_{0};  // futex; grows when something becomes pending
  std::atomic<bool> idle_{false};       // sleeping on work_
  std::atomic<bool> stop_{false};
};

}  // namespace tutti
