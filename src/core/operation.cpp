#include "core/operation.hpp"

#include <utility>

#include "coll/pattern/move.hpp"

namespace tutti {

Status tell_failure(Team& team, const Status& why) noexcept {
  return team.lacks_a_member() ? why : team.engine().fail(team.membership(), why);
}

Status LocalOperation::start(Engine::Guard&) noexcept {
  if (!moves_nothing(call)) run_on_one_rank(call);
  outcome = Status::success();
  return Status::success();
}

Status TaskOperation::start(Engine::Guard& guard) noexcept {
  TUTTI_TRY(team_status());
  guard.escalate();
  Dispatcher::take_place(collective_, choice_);
  begins();
  Task collective = Dispatcher::task(collective_, choice_);
  if (collective.done()) {  // everybody else was there already
    end(collective.result());
    return Status::success();
  }
  if (const Status status = run(run_collective(std::move(collective))); !status.ok()) {
    ends(status);
    return team.engine().fail(team.membership(), status);
  }
  return Status::success();
}

void TaskOperation::end(const Status& status) noexcept {
  ends(status.ok() ? status : tell_failure(team, status));
}

Status TaskOperation::team_status() noexcept {
  const bool broken = team.engine().broken(team.membership());
  return broken ? team.membership().broken : Status::success();
}

Status TaskOperation::run(Task task) noexcept {
  task_ = std::move(task);
  if (task_.done()) return task_.result();
  count_in();
  task_.start();
  return Status::success();
}

Task TaskOperation::run_collective(Task collective) noexcept {
  const Status status = co_await tutti::outcome(collective);
  end(status);
  count_out();
  co_return status;
}

void TaskOperation::wait(Engine::Guard& guard) noexcept {
  if (!active()) return;
  team.engine().wait_until([this] { return !active(); }, guard);
}

bool active(const Operation& operation) noexcept { return !operation.ready(); }

}  // namespace tutti
