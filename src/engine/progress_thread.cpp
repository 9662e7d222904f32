#include "engine/progress_thread.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/cores.hpp"
#include "base/log.hpp"
#include "engine/engine.hpp"

namespace tutti {
namespace {

// What an application that blocks elsewhere has for itself, in ns; others wait for it.
constexpr std::uint64_t kGraceCovering = 100'000;
constexpr std::uint64_t kSleep = 50'000'000;  // ns; bound on one armed sleep
// What the application has for itself, in ns, while it comes again and again: for a window of
// sends. What it does here need not move what is pending, so each time in a row it has half as
// much.
constexpr std::uint64_t kStay = 2'000'000;

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
  stop_.store(true, std::memory_order_seq_cst);
  rouse();
  engine_.fabric_.wake(engine_.fabric_.rank());
  pthread_join(thread_, nullptr);
}

void ProgressThread::bind(int cpu) noexcept {
  if (!started_) return;
  if (cpu >= 0 && bind_thread(thread_, cpu)) return;
  if (cpu >= 0) log(LogLevel::warn, "cannot bind the progress thread to CPU %d", cpu);
  pthread_setaffinity_np(thread_, sizeof home_, &home_);
}

void ProgressThread::wake() noexcept { wake_from(Rest::until_called); }

void ProgressThread::rouse() noexcept { wake_from(Rest::grace); }

void ProgressThread::wake_from(Rest rest) noexcept {
  work_.fetch_add(1, std::memory_order_seq_cst);
  if (rest_.load(std::memory_order_seq_cst) >= rest)
    syscall(SYS_futex, &work_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void* ProgressThread::entry(void* self) noexcept {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_setname_np(pthread_self(), "tutti-progress");
  static_cast<ProgressThread*>(self)->run();
  return nullptr;
}

void ProgressThread::run() noexcept {
  wait_for_work();
  while (!stop_.load(std::memory_order_acquire)) {
    if (kept_away()) {
      begin_anew();
      wait_for_work();
    } else if (visited()) {
      const std::uint64_t begin = engine_.fabric_.now_ns();
      stay_away([this] { return engine_.policy_.grace_ns; });
      stayed_ns_ += engine_.fabric_.now_ns() - begin;
    } else {
      progress_once();
    }
  }
}

bool ProgressThread::has_work() const noexcept {
  return background_.pending() != 0 && background_.enabled_.load(std::memory_order_acquire);
}

bool ProgressThread::kept_away() const noexcept {
  return !has_work() || engine_.inside_.load(std::memory_order_seq_cst) != 0;
}

bool ProgressThread::covering() const noexcept {
  return background_.covers_.load(std::memory_order_seq_cst) != 0;
}

/// Whoever calls again and again looks after things in between, and would have to wait here for the
/// lock and the processor.
bool ProgressThread::visited() noexcept {
  if (covering()) return false;  // others wait for what is pending here
  if (anew_.exchange(false, std::memory_order_relaxed)) {
    stay_ns_ = kStay;
    stayed_ns_ = 0;
  }
  const bool gone =
      visits_ == engine_.visits() && !engine_.locked_.load(std::memory_order_relaxed);
  if (gone) {
    begin_anew();
    return false;
  }
  if (stayed_ns_ < stay_ns_) return true;
  stay_ns_ /= 2;
  stayed_ns_ = 0;
  return false;
}

/// How long the application has what is pending for itself, in ns.
std::uint64_t ProgressThread::grace() noexcept {
  const WaitPolicy& policy = engine_.policy_;
  if (covering()) return std::min(policy.grace_ns, kGraceCovering);
  if (policy.crowded_grace_ns <= policy.grace_ns) return policy.grace_ns;
  const bool crowded = crowding_.crowded(engine_.fabric_.now_ns());
  return crowded ? policy.crowded_grace_ns : policy.grace_ns;
}

void ProgressThread::wait_for_work() noexcept {
  const std::uint32_t seen = work_.load(std::memory_order_seq_cst);
  rest_.store(Rest::until_called, std::memory_order_seq_cst);
  if (kept_away() && !stop_.load(std::memory_order_seq_cst)) futex_wait(work_, seen, 0);
  // What completes at once, or is waited for soon, needs no thread: the application first.
  stay_away([this] { return grace(); });
}

/// For time() ns, asked for when this thread can be roused already: by whoever covers meanwhile.
template <class Time>
void ProgressThread::stay_away(Time time) noexcept {
  visits_ = engine_.visits();
  const std::uint32_t seen = work_.load(std::memory_order_seq_cst);
  rest_.store(Rest::grace, std::memory_order_seq_cst);
  if (!stop_.load(std::memory_order_seq_cst)) futex_wait(work_, seen, time());
  rest_.store(Rest::awake, std::memory_order_seq_cst);
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
  visits_ = engine_.visits();
  if (engine_.sleep_slice(kSleep, guard, covering() ? Attention::all : Attention::solicited))
    background_.rung_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tutti
