#include "engine/background.hpp"

#include <pthread.h>

#include <new>

#include "engine/engine.hpp"
#include "engine/progress_thread.hpp"

namespace tutti {

Background::Background(Engine& engine) : engine_(engine) {
  if (engine.fabric().traits().virtual_time) return;
  home_ = std::make_unique<cpu_set_t>();
  CPU_ZERO(home_.get());
  pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), home_.get());
}

Background::~Background() { stop_thread(); }

void Background::stop_thread() noexcept {
  enabled_.store(false, std::memory_order_release);
  delete thread_;
  thread_ = nullptr;
}

void Background::started() noexcept {
  const bool first = pending_.fetch_add(1, std::memory_order_release) == 0;
  call_thread();
  if (first && thread_ != nullptr) thread_->begin_anew();
}

void Background::cover() noexcept {
  covers_.fetch_add(1, std::memory_order_seq_cst);
  started();
  // The thread may sleep already, with its attention elsewhere, or leave us time that we don't
  // need.
  if (thread_ != nullptr && attended()) thread_->rouse();
  engine_.wake_own();
}

void Background::call_thread() noexcept {
  if (!attended()) return;
  if (thread_ == nullptr) thread_ = new (std::nothrow) ProgressThread(engine_, *home_, cpu_);
  if (thread_ != nullptr) thread_->wake();
}

void Background::recall_thread() noexcept {
  if (attended() && thread_ != nullptr) thread_->wake();
}

void Background::set_thread(bool enabled, int cpu) noexcept {
  Engine::Guard guard(engine_);
  guard.escalate();
  enabled_.store(enabled, std::memory_order_release);
  cpu_ = cpu;
  if (thread_ != nullptr) thread_->bind(cpu);
  if (enabled && pending() != 0) call_thread();
}

}  // namespace tutti
