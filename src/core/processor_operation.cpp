#include "core/processor_operation.hpp"

namespace tutti {

Status ProcessorOperation::start(Engine::Guard& guard) noexcept {
  TUTTI_TRY(team_status());
  offload::Port& port = *team.port;
  if (!port.client->hand_over(port, call, &handed_)) return TaskOperation::start(guard);
  taskless_.add(*this);
  alone_.store(true, std::memory_order_release);  // `handed_` is there for who sees it
  begins();
  return Status::success();
}

bool ProcessorOperation::ready() const noexcept {
  return !active() || (alone_.load(std::memory_order_acquire) && answered());
}

void ProcessorOperation::look() noexcept {
  if (!alone_.load(std::memory_order_relaxed) || !answered()) return;
  offload::Port& port = *team.port;
  const Status status = port.client->take(port, call, handed_);
  taskless_.remove(*this);
  alone_.store(false, std::memory_order_relaxed);
  ends_with(status);
}

void ProcessorOperation::ends_with(Status status) noexcept {
  if (!status.ok()) status = team.engine().fail(team.membership(), status);
  ends(status);
}

void ProcessorOperation::give_task() noexcept {
  if (!alone_.load(std::memory_order_relaxed)) return;
  taskless_.remove(*this);
  alone_.store(false, std::memory_order_release);
  if (const Status status = run(await_answer()); !status.ok()) ends_with(status);
}

Task ProcessorOperation::await_answer() noexcept {
  offload::Port& port = *team.port;
  ends_with(co_await tutti::outcome(port.client->await(port, call, handed_)));
  count_out();
  co_return outcome;
}

void ProcessorOperation::wait(Engine::Guard& guard) noexcept {
  if (alone_.load(std::memory_order_relaxed)) {
    for (std::uint32_t i = team.engine().policy().spins; i != 0 && !answered(); --i) cpu_pause();
    look();
    give_task();
  }
  TaskOperation::wait(guard);
}

void Taskless::add(ProcessorOperation& operation) noexcept {
  operations_.push_back(operation);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void Taskless::remove(ProcessorOperation& operation) noexcept {
  operations_.remove(operation);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

void Taskless::give_tasks() noexcept {
  for (ProcessorOperation* operation = operations_.first(); operation != nullptr;) {
    ProcessorOperation* const next = operations_.next(*operation);
    if (!operation->ready()) operation->give_task();
    operation = next;
  }
}

}  // namespace tutti
