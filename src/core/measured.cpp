// The choice on line: trials of the host and of two of tutti's algorithms, in the program's calls.
#include <algorithm>
#include <array>
#include <new>

#include "base/log.hpp"
#include "base/reduction.hpp"
#include "core/job.hpp"

namespace tutti {
namespace {

/// What carries the members' times: an algorithm of tutti's own, whatever the user has asked for.
Choice carrier(const Team& team) {
  Shape shape = team.choices->shape(Coll::allreduce, OperatorClass::divisible);
  shape.hosted = shape.dedicated = shape.fixed_order = false;
  shape.bytes = shape.element_bytes = sizeof(double);
  return choose(shape, Forced{});
}

}  // namespace

/// False where there is no memory for it.
bool JobImpl::begin_measuring(Team& team) {
  if (!tries_ || team.size() == 1) return true;
  std::unique_ptr<Online> online(new (std::nothrow) Online(scarce_));
  if (!online) return false;
  team.online = online.get();
  online_[&team] = std::move(online);
  return true;
}

void JobImpl::end_measuring(Team& team) noexcept {
  online_.erase(&team);
  team.online = nullptr;
}

/// A call on trial, or one of a kind that is no longer run by what the rules choose.
Status JobImpl::run_attended(const Route& route, Team& team, const Call& call,
                             Engine::Guard& guard) noexcept {
  Online& online = *team.online;
  Online::Cell* const cell = route.cell;
  // On a broken team the members may not have counted alike: what is decided stays.
  if (engine_.broken(team.membership()) || (cell->on_trial && !Dispatcher::runs(carrier(team))))
    online.settle(*cell);
  const Runner runner = online.runner(*cell);
  if (runner == Runner::host) {
    online.waits_for = call;
    online.awaits_time = cell->on_trial;
    return Dispatcher::left_to_host();
  }
  const Choice& choice = runner == Runner::chosen ? *route.choice : choice_of(runner, team, call);
  if (!cell->on_trial) return run_chosen(team, call, choice, guard);
  online.waits_for = call;
  const std::uint64_t begin = fabric_->now_ns();
  if (const Status status = run_chosen(team, call, choice, guard); !status.ok()) {
    online.give_up();
    return status;
  }
  online.awaits_time = call.copied;
  return call.copied ? Status::success() : end_turn(team, fabric_->now_ns() - begin, guard);
}

Status JobImpl::took(Team& team, std::uint64_t ns) noexcept {
  Engine::Guard guard(engine_);
  team.online->awaits_time = false;
  return end_turn(team, ns, guard);
}

Status JobImpl::end_turn(Team& team, std::uint64_t ns, Engine::Guard& guard) noexcept {
  Online& online = *team.online;
  if (!online.ended(ns)) return Status::success();
  // Whole numbers, so that their sum is the same in whatever order it is formed.
  double time = online.block_time();
  if (const Status status = sum_over_members(team, &time, guard); !status.ok()) {
    online.give_up();
    return status;
  }
  Verdict verdict;
  if (online.conclude(time / team.size(), &verdict)) note(team, online.waits_for, verdict);
  return Status::success();
}

Status JobImpl::sum_over_members(Team& team, double* value, Engine::Guard& guard) noexcept {
  Reduction sum;
  find_reduction(Op::sum, Type::f64, &sum);
  Call call;
  call.coll = Coll::allreduce;
  call.send = call.recv = value;
  call.bytes = sizeof *value;
  call.reduction = &sum;
  return run_chosen(team, call, carrier(team), guard);
}

void JobImpl::note(const Team& team, Call call, const Verdict& verdict) {
  const std::size_t of_class = Online::class_of(call.bytes);
  Learnt now;
  now.coll = call.coll;
  now.size = team.size();
  const Shape& shape = team.choices->shape();
  now.place = shape.mapped         ? Where::Place::node
              : shape.hierarchical ? Where::Place::layers
                                   : Where::Place::nodes;
  now.scarce = scarce_;
  now.bypass = shape.bypass;
  now.whole = class_of(call) == OperatorClass::whole;
  now.least = of_class == 0 ? 0 : std::size_t{1} << of_class;
  now.most = call.coll == Coll::barrier ? 0 : Online::most_of(of_class);
  call.bytes = now.most;  // as known_of() will ask
  now.taken = choice_of(verdict.runner, team, call);
  now.against = choice_of(verdict.other, team, call);
  now.chosen = verdict.runner == Runner::chosen;
  now.ratio = verdict.ratio;
  now.trials = 1;
  // Of the same kind: earlier trials of the two, and what the loser has won.
  std::erase_if(learnt_, [&now](const Learnt& one) {
    if (one.coll != now.coll || one.size != now.size || one.place != now.place ||
        one.least != now.least || one.whole != now.whole)
      return false;
    const bool alike = same(one.taken, now.taken) && same(one.against, now.against);
    const bool turned = same(one.taken, now.against) && same(one.against, now.taken);
    if (alike || turned) now.trials += one.trials;
    return alike || same(one.taken, now.against);
  });
  if (learnt_.size() < learnt_.capacity()) learnt_.push_back(now);
}

/// Where the second is none at just these bytes, the chosen one.
const Choice& JobImpl::choice_of(Runner runner, const Team& team, const Call& call) noexcept {
  static const auto hosts = [] {
    std::array<Choice, kColls> all;
    for (std::size_t coll = 0; coll < kColls; ++coll)
      all[coll].algorithm = &host_algorithm(static_cast<Coll>(coll));
    return all;
  }();
  if (runner == Runner::host) return hosts[static_cast<std::size_t>(call.coll)];
  const Choice& second = Dispatcher::second(team, call);
  return runner == Runner::second && Dispatcher::runs(second) ? second
                                                              : Dispatcher::choice(team, call);
}

/// Who runs the next call of that kind on the team.
Runner JobImpl::runner_of(const Team& team, const Call& call, bool* on_trial) const noexcept {
  if (!is_tried(team, call, Dispatcher::choice(team, call))) return Runner::chosen;
  const Online::Cell* const cell = cell_of(const_cast<Team&>(team), call);
  if (cell == nullptr) return Runner::chosen;
  *on_trial = team.online->tries_other(*cell);
  return team.online->runner(*cell);
}

/// What is known of such calls, of that many bytes: who has run them in earlier runs.
Known JobImpl::known_of(const Team& team, Call call, std::size_t bytes) const noexcept {
  call.bytes = call.coll == Coll::barrier ? 0 : bytes;
  const Choice& second = Dispatcher::second(team, call);
  Known known;
  known.has_second = Dispatcher::runs(second);
  known.second_sets_up =
      known.has_second && (second.algorithm->casts || second.algorithm->offloaded);
  if (kept_.empty() || class_of(call) != OperatorClass::divisible) return known;
  Shape shape = team.choices->shape_of(call);
  shape.scarce = scarce_;
  const Rule* const rule = kept_.of(shape);
  if (rule == nullptr) return known;
  if (rule->choice.algorithm->left_to_host()) known.runner = Runner::host;
  if (known.has_second && same(rule->choice, second)) known.runner = Runner::second;
  return known;
}

void JobImpl::remember(const Host& host) {
  host_ = host.version;
  std::string message;
  if (can_try(host) && settings_.choice != "online")
    kept_ = read_kept(settings_.choice, host_, &message);
  if (!message.empty() && host.rank == 0)
    log(LogLevel::warn, "TUTTI_CHOICE: %s; this run starts without it", message.c_str());
}

void JobImpl::keep_learnt() const {
  if (!tries_ || settings_.choice == "online" || learnt_.empty()) return;
  std::string message;
  if (!write_kept(settings_.choice, host_, learnt_, &message).ok())
    log(LogLevel::warn, "TUTTI_CHOICE: what was learnt is not kept: %s", message.c_str());
}

}  // namespace tutti
