#include "engine/progress_thread.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"

namespace tutti {
namespace {

// While the application polls by itself the thread only looks in now and then.
constexpr std::uint64_t kGrace = 100'000;     // ns
constexpr std::uint64_t kSleep = 50'000'000;  // ns; bound on one armed sleep

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint64_t ns) noexcept {
  timespec timeout{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, ns == 0 ? nullptr : &timeout, nullptr, 0);
}

}  // namespace

ProgressThread::ProgressThread(Engine& engine, const cpu_set_t& home, int cpu) noexcept
    : engine_(engine), background_(engine.background()), home_(home) {
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &ProgressThread::entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  started_ = error == 0;
  if (!started_) {
    log(LogLevel::warn,
        "cannot start a progress thread: non-blocking collectives progress only inside MPI calls");
    return;
  }
  bind(cpu);
}

ProgressThread::~ProgressThread() {
  if (!started_) return;
  stop_.store(true, std::memory_order_release);
  wake();
  engine_.fabric_.wake(engine_.fabric_.rank());
  pthread_join(thread_, nullptr);
}

void ProgressThread::bind(int cpu) noexcept {
  if (!started_) return;
  if (cpu >= 0 && bind_thread(thread_, cpu)) return;
  if (cpu >= 0) log(LogLevel::warn, "cannot bind the progress thread to CPU %d", cpu);
  pthread_setaffinity_np(thread_, sizeof home_, &home_);
}

void ProgressThread::wake() noexcept {
  work_.fetch_add(1, std::memory_order_seq_cst);
  if (idle_.load(std::memory_order_seq_cst)) {
    syscall(SYS_futex, &work_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

void* ProgressThread::entry(void* self) noexcept {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_setname_np(pthread_self(), "tutti-progress");
  static_cast<ProgressThread*>(self)->run();
  return nullptr;
}

void ProgressThread::run() noexcept {
  while (!stop_.load(std::memory_order_acquire)) {
    if (!has_work()) {
      wait_for_work();
    } else if (engine_.inside_.load(std::memory_order_relaxed) != 0) {
      // The application polls by itself: keep out of its way.
      futex_wait(work_, work_.load(std::memory_order_acquire), kGrace);
    } else {
      progress_once();
    }
  }
}

bool ProgressThread::has_work() const noexcept {
  return background_.pending() != 0 && background_.enabled_.load(std::memory_order_acquire);
}

void ProgressThread::wait_for_work() noexcept {
  const std::uint32_t seen = work_.load(std::memory_order_seq_cst);
  idle_.store(true, std::memory_order_seq_cst);
  if (!has_work() && !stop_.load(std::memory_order_seq_cst)) futex_wait(work_, seen, 0);
  idle_.store(false, std::memory_order_seq_cst);
  if (stop_.load(std::memory_order_acquire)) return;
  // An operation that completes at once needs no thread: give the application a moment first.
  futex_wait(work_, work_.load(std::memory_order_acquire), kGrace);
}

void ProgressThread::progress_once() noexcept {
  Engine::Guard guard(engine_);
  guard.escalate();
  if (!has_work()) return;  // checked again under the lock: without it nothing may be touched
  // All that there is, so that what comes back to back costs one interrupt; the application may
  // come in between.
  while (engine_.poll()) {
    background_.handled_.fetch_add(1, std::memory_order_relaxed);
    if (engine_.inside_.load(std::memory_order_relaxed) != 0) return;
    guard.give();
    guard.take();
    if (!has_work()) return;  // looked at again: the application needs no lock then
  }
  if (!has_work() || stop_.load(std::memory_order_acquire)) return;
  background_.sleeps_.fetch_add(1, std::memory_order_relaxed);
  const bool covering = background_.covers_.load(std::memory_order_relaxed) != 0;
  if (engine_.sleep_slice(kSleep, guard, covering ? Attention::all : Attention::solicited))
    background_.rung_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tutti
