// The choice on line: trials of the host against tutti's algorithms, in the calls of the program.
#include <algorithm>
#include <new>

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
bool JobImpl::begin_measuring(Team& team) noexcept {
  if (settings_.choice != Choosing::online || team.size() == 1) return true;
  std::unique_ptr<Online> online(new (std::nothrow) Online(fabric_->traits().scarce));
  if (!online) return false;
  team.online = online.get();
  online_.push_back(std::move(online));
  return true;
}

void JobImpl::end_measuring(Team& team) noexcept {
  std::erase_if(online_, [&team](const auto& one) { return one.get() == team.online; });
  team.online = nullptr;
}

/// Whether it is open who runs the call: nobody has said so, and the host can.
bool JobImpl::may_try(const Team& team, const Call& call) const noexcept {
  if (dispatcher_.policy().forced.of(call.coll) != nullptr) return false;
  const Shape shape = team.choices->shape_of(call);
  return dispatcher_.policy().site.of(shape) == nullptr &&
         host_algorithm(call.coll).restriction(shape, {}) == nullptr &&
         Dispatcher::runs(Dispatcher::choice(team, call));
}

/// A call on trial, or one that is the host's since it has won.
Status JobImpl::run_attended(Team& team, const Call& call, Online::Cell* cell,
                             Engine::Guard& guard) noexcept {
  if (cell == nullptr) {
    return tell_failure(team, engine_.fail(team.membership(),
                                           Status::error(Code::no_memory, "out of memory")));
  }
  if (!cell->on_trial) return Dispatcher::left_to_host();
  Online& online = *team.online;
  const Choice& own = Dispatcher::choice(team, call);
  if (!may_try(team, call) || !Dispatcher::runs(carrier(team))) {
    online.settle(*cell);
    return run_chosen(team, call, own, guard);
  }
  if (online.on_host(*cell)) {
    online.waits_for = call;
    online.awaits_host = true;
    return Dispatcher::left_to_host();
  }
  const std::uint64_t begin = fabric_->now_ns();
  TUTTI_TRY(run_chosen(team, call, own, guard));
  return end_turn(team, call, fabric_->now_ns() - begin, guard);
}

bool JobImpl::awaits_host(const Team& team) const noexcept {
  return team.online != nullptr && team.online->awaits_host;
}

Status JobImpl::host_ended(Team& team, std::uint64_t ns) noexcept {
  Engine::Guard guard(engine_);
  team.online->awaits_host = false;
  return end_turn(team, team.online->waits_for, ns, guard);
}

Status JobImpl::end_turn(Team& team, const Call& call, std::uint64_t ns,
                         Engine::Guard& guard) noexcept {
  if (!team.online->ended(ns)) return Status::success();
  double time = team.online->block_time();
  TUTTI_TRY(sum_over_members(team, &time, guard));
  Verdict verdict;
  if (team.online->conclude(time / team.size(), &verdict)) note(team, call, verdict);
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

void JobImpl::note(const Team& team, const Call& call, const Verdict& verdict) {
  const std::size_t bit = Online::class_of(call.bytes);
  Learnt now;
  now.coll = call.coll;
  now.size = team.size();
  now.one_node = team.mapped();
  now.least = bit == 0 ? 0 : std::size_t{1} << bit;
  now.most = (std::size_t{2} << bit) - 1;
  if (call.coll == Coll::barrier) now.most = 0;
  now.host = verdict.host;
  now.algorithm = Dispatcher::choice(team, call).algorithm->name;
  now.ratio = verdict.ratio;
  now.trials = 1;
  const auto known = std::ranges::find_if(learnt_, [&now](const Learnt& one) {
    return one.coll == now.coll && one.size == now.size && one.one_node == now.one_node &&
           one.least == now.least;
  });
  if (known != learnt_.end()) {
    now.trials += known->trials;
    *known = now;
  } else if (learnt_.size() < learnt_.capacity()) {
    learnt_.push_back(now);
  }
}

std::vector<Learnt> JobImpl::learnt() const { return learnt_; }

const Online::Cell* JobImpl::cell_of(const Team& team, const Call& call) const noexcept {
  if (team.online == nullptr || class_of(call) == OperatorClass::ordered) return nullptr;
  return team.online->cell(call.coll, class_of(call), call.bytes);
}

}  // namespace tutti
