// Operations that a dedicated processor carries out: one put to start, one look at a flag.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/operation.hpp"
#include "offload/client.hpp"
#include "p2p/list.hpp"

namespace tutti {

class Taskless;

/// A request to a dedicated processor. It gets a task only when somebody waits for it, when nobody
/// will look any more, or when the request cannot be handed over at once.
class ProcessorOperation final : public TaskOperation {
 public:
  ProcessorOperation(Team& its_team, const Call& its_call, const Choice& choice,
                     Taskless& taskless) noexcept
      : TaskOperation(its_team, its_call, choice), taskless_(taskless) {}
  Status start(Engine::Guard& guard) noexcept override;
  bool ready() const noexcept override;
  void look() noexcept override;
  void give_task() noexcept override;
  void wait(Engine::Guard& guard) noexcept override;

  p2p::Hook<ProcessorOperation> in_taskless;

 private:
  bool answered() const noexcept { return handed_.answered(); }
  void ends_with(Status status) noexcept;
  Task await_answer() noexcept;
  // This process has nothing to do for it: no progress thread is woken.
  void count_in() noexcept override { team.engine().background().passive_started(); }
  void count_out() noexcept override { team.engine().background().passive_finished(); }

  Taskless& taskless_;
  offload::Client::Handed handed_;
  // Handed over, without a task. Changed under the engine's lock.
  std::atomic<bool> alone_{false};
};

/// The requests of a process that have no task.
class Taskless {
 public:
  /// Under the engine's lock, as all but empty().
  void add(ProcessorOperation& operation) noexcept;
  void remove(ProcessorOperation& operation) noexcept;
  /// Gives a task to those that are not answered.
  void give_tasks() noexcept;
  bool empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  p2p::List<ProcessorOperation, &ProcessorOperation::in_taskless> operations_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace tutti
