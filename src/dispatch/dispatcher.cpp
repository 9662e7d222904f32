#include "dispatch/dispatcher.hpp"

namespace tutti {

/// Whoever casts later on must be heard by all: they open the multicast before they meet.
Task Dispatcher::connect_and_run(Collective& collective, const Choice& choice) noexcept {
  if (choice.algorithm->casts) co_await collective.team.open_multicast();
  co_await collective.team.connect();
  co_await choice.algorithm->run(collective, choice.parameters);
  co_return Status::success();
}

Status Dispatcher::not_run(const Choice& choice) noexcept {
  return choice.algorithm == nullptr ? Status::error(Code::unsupported, "no algorithm can run here")
                                     : left_to_host();
}

Task Dispatcher::run_chosen(Team& team, const Call& call, const Choice& choice) noexcept {
  Collective collective(team, call);
  take_place(collective, choice);
  co_await task(collective, choice);
  co_return Status::success();
}

Task Dispatcher::run(Team& team, const Call& call) noexcept {
  if (moves_nothing(call)) return Task::completed(Status::success());
  const Choice& choice = choices(team).of(call);
  if (!runs(choice)) return Task::completed(not_run(choice));
  return run_chosen(team, call, choice);
}

}  // namespace tutti
