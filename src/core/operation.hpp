// Operations: what a call that returns before its collective is over leaves behind.
//
// There are three kinds behind one interface. A local one is over as soon as it is started, a
// task's is driven by the engine, and a dedicated processor's (processor_operation.hpp) by somebody
// else.
#pragma once

#include <atomic>

#include "coll/collective.hpp"
#include "core/core.hpp"
#include "dispatch/dispatcher.hpp"
#include "engine/engine.hpp"

namespace tutti {

/// A collective in flight, or a persistent one between two starts. Owned by the host between
/// Job::start() or prepare() and Job::release(); by the job after that, while it is active. All
/// functions are called under the engine's lock, except those that say otherwise.
class Operation : public InFramePool {
 public:
  Operation(Team& its_team, const Call& its_call) noexcept : team(its_team), call(its_call) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Begins it. `guard` is the one that holds the lock.
  virtual Status start(Engine::Guard& guard) noexcept = 0;
  /// True when look() will find that it is over, or it was over before. Any thread, without lock.
  virtual bool ready() const noexcept = 0;
  /// Takes what has come, without waiting.
  virtual void look() noexcept {}
  /// Somebody waits now, or nobody will look any more: from here on the engine sees when it is over
  /// and who is lost.
  virtual void give_task() noexcept {}
  /// Waits until it is over.
  virtual void wait(Engine::Guard& guard) noexcept = 0;

  /// True from its start until its outcome is known. Any thread, without lock.
  bool active() const noexcept { return active_.load(std::memory_order_acquire); }

  Team& team;
  const Call call;
  Status outcome;          // once it is not active
  bool owns_team = false;  // a persistent collective has a team, and so an order, of its own

 protected:
  void begins() noexcept { active_.store(true, std::memory_order_release); }
  /// The last step: from here on whoever waits may give it back, once the lock is free.
  void ends(const Status& status) noexcept {
    outcome = status;
    active_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> active_{false};
};

/// Nothing to move, or nobody to move it to: over when it is started.
class LocalOperation final : public Operation {
 public:
  using Operation::Operation;
  Status start(Engine::Guard& guard) noexcept override;
  bool ready() const noexcept override { return true; }
  void wait(Engine::Guard&) noexcept override {}
};

/// A collective that a task of this process runs.
class TaskOperation : public Operation {
 public:
  TaskOperation(Team& its_team, const Call& its_call, const Choice& choice) noexcept
      : Operation(its_team, its_call), collective_(team, call), choice_(choice) {}
  Status start(Engine::Guard& guard) noexcept override;
  bool ready() const noexcept override { return !active(); }
  void wait(Engine::Guard& guard) noexcept override;

  FramePool& frames() noexcept { return team.engine().frames(); }

 protected:
  /// Why the team's members cannot communicate any more, if so.
  Status team_status() noexcept;
  /// `task` will end the operation. Fails where it has no memory for its frame.
  Status run(Task task) noexcept;
  /// While it is active: how the engine counts it.
  virtual void count_in() noexcept { team.engine().background().started(); }
  virtual void count_out() noexcept { team.engine().background().finished(); }

 private:
  Task run_collective(Task collective) noexcept;
  void end(const Status& status) noexcept;

  Collective collective_;
  const Choice& choice_;
  Task task_;
};

/// A collective of the team has failed here. The other members are told, unless each sees it for
/// itself. Gives what all of them report. Under the engine's lock.
Status tell_failure(Team& team, const Status& why) noexcept;

}  // namespace tutti
