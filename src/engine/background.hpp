// What is under way in a process while its application is elsewhere, and the thread that looks
// after it.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "fabric/fabric.hpp"

namespace tutti {

class Engine;
class ProgressThread;

/// What the progress thread has done so far.
struct ProgressCounts {
  std::uint64_t sleeps = 0;   // times it went to sleep although something was pending
  std::uint64_t rung = 0;     // of these, ended by a bell: the interrupts of RNDV-2006
  std::uint64_t handled = 0;  // tasks that it has moved on
};

/// One for each engine. Under its guard where nothing else is said.
class alignas(kCacheLine) Background {
 public:
  /// Remembers where the caller may run. Simulated ranks have no thread.
  explicit Background(Engine& engine);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Non-blocking operations in flight: while there are any, the thread looks after them.
  void started() noexcept;
  /// With or without a guard.
  void finished() noexcept { pending_.fetch_sub(1, std::memory_order_release); }
  /// Any thread.
  std::uint32_t pending() const noexcept { return pending_.load(std::memory_order_acquire); }

  /// The application is no longer inside, and looks after nothing by itself. Under a guard.
  void left() noexcept {
    if (pending() != 0) [[unlikely]]
      recall_thread();
  }

  /// The application is about to block outside while something is under way here that others may
  /// wait for: until uncover(), the thread does all that a caller inside would do, and every signal
  /// of a peer wakes it. Under a guard that holds the lock; covers may overlap.
  void cover() noexcept;
  /// With or without a guard.
  void uncover() noexcept {
    covers_.fetch_sub(1, std::memory_order_relaxed);
    finished();
  }

  /// Operations in flight for which this process has nothing to do but to see that they are over:
  /// no thread is woken for them. passive(): any thread.
  void passive_started() noexcept { passive_.store(passive() + 1, std::memory_order_relaxed); }
  void passive_finished() noexcept { passive_.store(passive() - 1, std::memory_order_relaxed); }
  std::uint32_t passive() const noexcept { return passive_.load(std::memory_order_relaxed); }

  /// Somebody progresses operations while the application computes. Any thread.
  bool attended() const noexcept {
    return home_ != nullptr && enabled_.load(std::memory_order_relaxed);
  }
  /// Switches and binds the thread (cpu < 0: where the application may run). Any thread, at any
  /// time, without a guard: operations that are pending then are taken up or left alone from now
  /// on.
  void set_thread(bool enabled, int cpu) noexcept;
  /// Ends the thread for good: before the tasks that it may be resuming are destroyed. Without a
  /// guard.
  void stop_thread() noexcept;
  /// Any thread.
  ProgressCounts counts() const noexcept {
    return {sleeps_.load(std::memory_order_relaxed), rung_.load(std::memory_order_relaxed),
            handled_.load(std::memory_order_relaxed)};
  }

 private:
  friend class ProgressThread;
  void call_thread() noexcept;
  void recall_thread() noexcept;

  std::atomic<std::uint32_t> pending_{0};
  std::atomic<std::uint32_t> passive_{0};  // written under the guard
  ProgressThread* thread_ = nullptr;       // made for the first non-blocking operation
  std::atomic<bool> enabled_{true};        // read by the thread
  int cpu_ = -1;
  std::unique_ptr<cpu_set_t> home_;       // nullptr in simulations
  std::atomic<std::uint32_t> covers_{0};  // written by callers; read by the thread
  std::atomic<std::uint64_t> sleeps_{0}, rung_{0}, handled_{0};  // written by the thread
  Engine& engine_;
};

}  // namespace tutti
