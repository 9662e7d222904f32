// The progress thread: looks after non-blocking operations while the application computes or sits
// in a native call of its MPI. It exists from the first such operation on, sleeps in the kernel
// whenever nothing is pending or the application itself is polling, and never calls the host MPI.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace tutti {

class Engine;

class ProgressThread {
 public:
  /// Starts the thread; `cpu` < 0: not bound. Where the system refuses a thread, operations
  /// progress only inside tutti's calls, which is said once in the log.
  ProgressThread(Engine& engine, int cpu) noexcept;
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Something is pending now. Costs a system call only when the thread sleeps for lack of work.
  void wake() noexcept;
  /// To one CPU, or back to those of the thread that made it (`cpu` < 0).
  void bind(int cpu) noexcept;

 private:
  static void* entry(void* self) noexcept;
  void run() noexcept;
  bool has_work() const noexcept;
  void wait_for_work() noexcept;
  void progress_once() noexcept;

  Engine& engine_;
  pthread_t thread_{};
  bool started_ = false;
  bool bound_ = false;
  cpu_set_t inherited_{};               // CPUs of the thread that made this one
  std::atomic<std::uint32_t> work_{0};  // futex; grows when something becomes pending
  std::atomic<bool> idle_{false};       // sleeping on work_
  std::atomic<bool> stop_{false};
};

}  // namespace tutti
