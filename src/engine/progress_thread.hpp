// The progress thread: looks after non-blocking operations while the application computes or sits
// in a native call of its MPI. It exists from the first such operation on, sleeps in the kernel
// whenever nothing is pending or the application itself is polling, and never calls the host MPI.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

#include "engine/crowding.hpp"

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

  /// Something is pending now that the application does not look after. Costs a system call only
  /// when the thread sleeps until then.
  void wake() noexcept;
  /// The same for what cannot wait for the end of the time that the application has for itself.
  void rouse() noexcept;
  /// How the application came and went before does not count any more.
  void begin_anew() noexcept { anew_.store(true, std::memory_order_relaxed); }
  /// To one CPU, or back home (`cpu` < 0).
  void bind(int cpu) noexcept;

 private:
  /// How it sleeps on work_: not at all, for the application's time, until it is called.
  enum class Rest : std::uint8_t { awake, grace, until_called };

  static void* entry(void* self) noexcept;
  void run() noexcept;
  /// Wakes it where it sleeps as deeply as `rest`, or more so.
  void wake_from(Rest rest) noexcept;
  bool has_work() const noexcept;
  /// Nothing is pending, or the application looks after it itself.
  bool kept_away() const noexcept;
  bool covering() const noexcept;
  std::uint64_t grace() noexcept;
  /// The application is about: it has been here since this thread last was.
  bool visited() noexcept;
  void wait_for_work() noexcept;
  template <class Time>
  void stay_away(Time time) noexcept;
  void progress_once() noexcept;

  Engine& engine_;
  Background& background_;
  pthread_t thread_{};
  bool started_ = false;
  cpu_set_t home_;
  std::atomic<std::uint32_t> work_{0};  // futex; grows when there is something to do
  std::atomic<Rest> rest_{Rest::awake};
  std::atomic<bool> stop_{false};
  std::atomic<bool> anew_{true};
  Crowding crowding_;
  std::uint32_t visits_ = 0;     // to the engine, when this thread last looked
  std::uint64_t stay_ns_ = 0;    // that the application has for itself while it is about,
  std::uint64_t stayed_ns_ = 0;  // and what of it has passed
};

}  // namespace tutti
