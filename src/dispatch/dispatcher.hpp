// How a collective comes to run: which algorithm takes it, its place in the order of its team, and
// whom its members must have met before.
//
// One way for all: the teams of a real job, their layers, the teams of dedicated processors, and
// all of these in virtual time. So what is simulated is what would run.
#pragma once

#include <cstdint>

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"
#include "select/rules.hpp"
#include "select/select.hpp"
#include "team/team.hpp"

namespace tutti {

/// What has been said about algorithms: the same on all ranks.
struct Policy {
  Forced forced;             // TUTTI_ALG
  Rules site;                // TUTTI_CHOICES
  bool fixed_order = false;  // TUTTI_FIXED_ORDER
};

/// Of all teams of a process, or of all ranks of a simulated job. Under the engine's lock.
class Dispatcher final : public CollectiveRunner {
 public:
  explicit Dispatcher(Policy policy) : policy_(std::move(policy)) {}
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  const Policy& policy() const noexcept { return policy_; }

  /// The choices of the team's collectives. The first call decides what the team is: whether
  /// dedicated processors serve it must be known by then.
  Choices& choices(Team& team) {
    if (team.choices == nullptr) [[unlikely]]
      team.choices = &by_shape_.of(Shape::of(team, policy_.fixed_order));
    return *team.choices;
  }

  /// What this call takes; its algorithm is nullptr where none can run. After choices(team).
  static const Choice& choice(const Team& team, const Call& call) noexcept {
    return team.choices->of(call);
  }
  /// What may be tried beside it; its algorithm is nullptr where there is none.
  static const Choice& second(const Team& team, const Call& call) noexcept {
    return team.choices->second_of(call);
  }
  /// Whether it is one that tutti runs.
  static bool runs(const Choice& choice) noexcept {
    return choice.algorithm != nullptr && !choice.algorithm->left_to_host();
  }
  static Status left_to_host() noexcept {
    return Status::error(Code::left_to_host, "the host is to run it");
  }
  /// What there is to say where it is not.
  static Status not_run(const Choice& choice) noexcept;
  /// Stream items that it uses. After choices(team).
  static std::uint64_t items(const Team& team, const Call& call, const Choice& choice) noexcept {
    return choice.algorithm->items == nullptr
               ? 0
               : choice.algorithm->items(team.choices->shape().with(call), choice.parameters);
  }

  /// Takes the collective's place in the order of its team. All members do so in one order.
  static void take_place(Collective& collective, const Choice& choice) noexcept {
    if (choice.algorithm->offloaded) return;
    collective.take_place(items(collective.team, collective.call, choice),
                          choice.algorithm->watched);
  }
  /// The task of a collective that has its place. Both must outlive it.
  static Task task(Collective& collective, const Choice& choice) noexcept {
    if (collective.team.connected() || choice.algorithm->offloaded)
      return choice.algorithm->run(collective, choice.parameters);
    return connect_and_run(collective, choice);
  }

  Task run(Team& team, const Call& call) noexcept override;

 private:
  static Task connect_and_run(Collective& collective, const Choice& choice) noexcept;
  static Task run_chosen(Team& team, const Call& call, const Choice& choice) noexcept;

  Policy policy_;
  ChoicesByShape by_shape_{policy_.forced, policy_.site};
};

}  // namespace tutti
