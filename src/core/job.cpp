#include "core/job.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/log.hpp"
#include "coll/pattern/move.hpp"
#include "team/shared_ring.hpp"

namespace tutti {
namespace {

p2p::Options message_options(const Settings& settings) noexcept {
  p2p::Options options;
  options.eager = settings.eager;
  options.allowance = settings.unexpected;
  options.tries = settings.choice != "static";
  switch (settings.rendezvous) {
    case Rendezvous::write:
      options.protocol = p2p::Protocol::write;
      break;
    case Rendezvous::read:
      options.protocol = p2p::Protocol::read;
      break;
    default:
      options.protocol = p2p::Protocol::read_interrupt;
      break;
  }
  return options;
}

/// What the settings say of algorithms. Where they cannot be read, the log says why.
Status read_policy(const Settings& settings, Policy* out) {
  std::string message;
  const Status forced = Forced::parse(settings.algorithm, &out->forced, &message);
  if (!forced.ok()) {
    log(LogLevel::error, "%s", message.c_str());
    return forced;
  }
  if (!settings.choices.empty()) {
    const Status site = Rules::load(settings.choices, &out->site, &message);
    if (!site.ok()) {
      log(LogLevel::error, "TUTTI_CHOICES: %s", message.c_str());
      return site;
    }
  }
  if (settings.choice != "online" && settings.choice != "static" &&
      settings.choice.find('/') == std::string::npos) {
    log(LogLevel::error,
        "TUTTI_CHOICE: '%s' is neither online nor static, nor a path with a / (./%s would be one)",
        settings.choice.c_str(), settings.choice.c_str());
    return Status::error(Code::invalid_argument, "TUTTI_CHOICE is wrong");
  }
  out->fixed_order = settings.fixed_order != FixedOrder::off;
  return Status::success();
}

std::size_t ring_of(const Settings& settings, const Traits& traits) {
  return settings.ring != 0 ? settings.ring
                            : ring_bytes_for(traits.core_cache, traits.keeps_evicted);
}

}  // namespace

JobImpl::JobImpl(const Settings& settings, Policy policy, std::unique_ptr<Fabric> fabric,
                 const WaitPolicy& wait, const HostPump& pump, bool threads)
    : settings_(settings),
      dispatcher_(std::move(policy)),
      fabric_(std::move(fabric)),
      engine_(*fabric_, wait, pump, threads),
      heap_(*fabric_, Directory::bytes()),
      messages_(engine_, heap_, message_options(settings)),
      blocks_(heap_, settings.block, ring_of(settings, fabric_->traits())),
      resources_{
          engine_, heap_, directory_, blocks_, &dispatcher_, &teams_, settings.multicast_receives} {
}

Status JobImpl::create(const Settings& settings, std::unique_ptr<Fabric> fabric, int node_ranks,
                       int cores, const HostPump& pump, bool threads,
                       std::unique_ptr<JobImpl>* out) {
  bool between_nodes = false;
  for (std::int32_t peer = 0; peer < fabric->size() && !between_nodes; ++peer)
    between_nodes = !fabric->maps(peer) && fabric->reaches(peer);
  const WaitPolicy wait = choose_wait_policy(node_ranks, cores, between_nodes, settings);
  Policy policy;
  TUTTI_TRY(read_policy(settings, &policy));
  std::unique_ptr<JobImpl> job(new (std::nothrow) JobImpl(settings, std::move(policy),
                                                          std::move(fabric), wait, pump, threads));
  if (!job) return Status::error(Code::no_memory, "out of memory");
  TUTTI_TRY(Directory::create(*job->fabric_, &job->directory_));
  TUTTI_TRY(job->messages_.open());
  job->messages_.answer();
  job->learnt_.reserve(kMostLearnt);
  job->scarce_ = node_ranks > cores || job->fabric_->traits().scarce;
  job->engine_.background().set_thread(settings.progress_thread != Switch::off,
                                       settings.progress_cpu);
  *out = std::move(job);
  return Status::success();
}

JobImpl::~JobImpl() {
  if (client_) client_->leave();
  messages_.finish_sending();
  engine_.background().stop_thread();
  for (Operation* operation : orphans_) {
    operation->owns_team = false;  // all teams go now
    destroy(operation);
  }
  if (records_.base != nullptr)
    munmap(records_.base, static_cast<std::size_t>(records_.ranks) * records_.bytes);
}

Status JobImpl::create_team(const TeamSpec& spec, Team** out) {
  Engine::Guard guard(engine_);
  return make_team(spec, Team::Use::any, out);
}

Status JobImpl::make_team(const TeamSpec& spec, Team::Use use, Team** out) {
  sweep();
  std::unique_ptr<Team> made;
  const Status created =
      Team::create(resources_, spec.id, spec.rank, spec.size, spec.members, use, &made);
  if (!created.ok()) return tell_missing(spec, created);
  Team& team = *made;
  if (client_ && spec.size > 1 && !team.declined()) {
    if (const Status served = client_->add(team); !served.ok()) team.decline();
  }
  team.hosted = spec.hosted;
  team.waits = spec.waits;
  if (spec.hosted && spec.waits && !begin_measuring(team)) team.decline();
  if (const Status announced = team.announce(); !announced.ok()) {
    if (client_) client_->remove(team);
    end_measuring(team);
    // Members on this node learn it from the directory, and are told when it is released.
    if (announced.code != Code::invalid_argument) teams_.release(std::move(made));
    return tell_missing(spec, announced);
  }
  choose_algorithms(team);
  *out = &team;
  teams_.add(std::move(made));
  return Status::success();
}

/// This rank has no end of a team: its members on other nodes are told. Gives `why` back.
Status JobImpl::tell_missing(const TeamSpec& spec, const Status& why) noexcept {
  if (shares_memory(spec.members, spec.size) || why.code == Code::unsupported) return why;
  Breakage breakage;
  breakage.team[0] = spec.id[0];
  breakage.team[1] = spec.id[1];
  breakage.rank = breakage.teller = fabric_->rank();
  breakage.code = why.code;
  fabric_->tell_broken(breakage, spec.members, spec.size);
  return why;
}

/// A team of the same members, for one collective at a time that is to be matched by itself. All
/// members make these in one order.
Status JobImpl::make_team_of(Team& team, Team** out) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(team.size()));
  for (int i = 0; i < team.size(); ++i) members[static_cast<std::size_t>(i)] = team.job_rank(i);
  TeamSpec spec;
  team.next_child_id(spec.id);
  spec.rank = team.rank();
  spec.size = team.size();
  spec.members = members.data();
  return make_team(spec, Team::Use::one_at_a_time, out);
}

bool JobImpl::shares_memory(const std::int32_t* members, int size) const noexcept {
  return std::all_of(members, members + size,
                     [this](std::int32_t member) { return fabric_->maps(member); });
}

Status JobImpl::meet(Team& team) noexcept {
  if (!team.mapped() || team.size() == 1) return Status::success();
  Engine::Guard guard(engine_);
  if (team.connected()) return Status::success();
  return engine_.run([&] { return team.connect(); }, guard);
}

/// Says once where an algorithm that was asked for cannot run: in the first team that has several
/// members, or between its leaders. The host takes whole calls only.
void JobImpl::choose_algorithms(Team& team) {
  dispatcher_.choices(team);
  const Layers* const layers = team.layers();
  const bool concerned = layers == nullptr ? team.size() > 1 : layers->leaders != nullptr;
  if (said_where_not_forced_ || !concerned) return;
  said_where_not_forced_ = true;
  for (int i = 0; i < kColls; ++i) {
    const Coll coll = static_cast<Coll>(i);
    const Choice* const wanted = dispatcher_.policy().forced.of(coll);
    if (wanted == nullptr) continue;
    const bool whole = layers == nullptr || wanted->algorithm->left_to_host();
    say_where_not_forced(whole ? team : *layers->leaders, coll);
  }
}

void JobImpl::say_where_not_forced(Team& team, Coll coll) {
  if (team.rank() != 0) return;
  Choices& choices = dispatcher_.choices(team);
  const auto where_not = [&](OperatorClass operators) {
    return where_not_forced(choices.shape(coll, operators), dispatcher_.policy().forced,
                            choices.table(coll, operators));
  };
  std::string where = where_not(OperatorClass::divisible);
  if (where.empty() && sums_exactly() && reduces(coll)) where = where_not(OperatorClass::at_once);
  if (!where.empty()) log(LogLevel::warn, "%s", where.c_str());
}

void JobImpl::release_team(Team* team) noexcept {
  Engine::Guard guard(engine_);
  retire(*team);
  sweep();
}

void JobImpl::discard_team(Team* team) noexcept {
  Engine::Guard guard(engine_);
  team->set_unused();
  retire(*team);
  sweep();
}

/// This end is given up; its memory is kept until the other members have done so too.
void JobImpl::retire(Team& team) noexcept {
  messages_.forget(team);
  if (client_) client_->remove(team);
  end_measuring(team);
  teams_.release(team);
}

void JobImpl::sweep() noexcept {
  std::erase_if(orphans_, [this](Operation* operation) {
    if (operation->active()) return false;
    destroy(operation);
    return true;
  });
  teams_.sweep();
}

Status JobImpl::run(Team& team, const Call& call) noexcept {
  Route route;
  return run(team, call, &route);
}

Status JobImpl::run(Team& team, const Call& call, Route* found) noexcept {
  if (moves_nothing(call)) return Status::success();
  if (team.size() == 1) {
    run_on_one_rank(call);
    return Status::success();
  }
  Engine::Guard guard(engine_);
  if (!look_up(team, call, found)) [[unlikely]]
    return tell_failure(team, Status::error(Code::no_memory, "out of memory"));
  return run_route(*found, team, call, guard);
}

Status JobImpl::run_by(const Route& route, Team& team, const Call& call) noexcept {
  Engine::Guard guard(engine_);
  if (const Status status = run_route(route, team, call, guard); !status.ok()) [[unlikely]]
    return status;
  return Status::success();
}

bool JobImpl::leaves(const Route& route) noexcept {
  const Algorithm* const chosen = route.choice->algorithm;
  if (route.cell == nullptr) return chosen != nullptr && chosen->left_to_host();
  Engine::Guard guard(engine_);
  return Online::leaves(*route.cell);
}

void JobImpl::count_left(const Route& route) noexcept {
  if (route.cell == nullptr) return;
  Engine::Guard guard(engine_);
  Online::count_left(*route.cell);
}

/// False where there is no memory for a cell.
bool JobImpl::look_up(Team& team, const Call& call, Route* out) const noexcept {
  *out = {&Dispatcher::choice(team, call), nullptr};
  if (!is_tried(team, call, *out->choice)) return true;
  out->cell = cell_of(team, call);
  if (out->cell == nullptr) *out = {};
  return out->cell != nullptr;
}

inline Status JobImpl::run_route(const Route& route, Team& team, const Call& call,
                                 Engine::Guard& guard) noexcept {
  if (route.cell != nullptr && team.online->take(*route.cell)) [[unlikely]]
    return run_attended(route, team, call, guard);
  return run_chosen(team, call, *route.choice, guard);
}

Status JobImpl::fail(Team& team, const Status& why) noexcept {
  Engine::Guard guard(engine_);
  return engine_.fail(team.membership(), why);
}

Status JobImpl::fail(Operation& operation, const Status& why) noexcept {
  return fail(operation.team, why);
}

// ---- operations

/// From the engine's pool, under its lock.
Status JobImpl::make(Team& team, const Call& call, Operation** out) noexcept {
  if (team.size() == 1 || moves_nothing(call)) {
    *out = new (frames()) LocalOperation(team, call);
  } else {
    const Choice& choice = Dispatcher::choice(team, call);
    if (!Dispatcher::runs(choice)) [[unlikely]]
      return Dispatcher::not_run(choice);
    *out = make_kind(team, call, choice);
  }
  if (*out == nullptr)
    return engine_.fail(team.membership(), Status::error(Code::no_memory, "out of memory"));
  return Status::success();
}

Operation* JobImpl::make_kind(Team& team, const Call& call, const Choice& choice) noexcept {
  if (choice.algorithm->offloaded)
    return new (frames()) ProcessorOperation(team, call, choice, taskless_);
  return new (frames()) TaskOperation(team, call, choice);
}

void JobImpl::destroy(Operation* operation) noexcept {
  if (operation->owns_team) retire(operation->team);
  delete operation;
}

Status JobImpl::prepare(Team& team, const Call& call, Operation** out) noexcept {
  Engine::Guard guard(engine_);
  if (team.size() == 1 || moves_nothing(call)) return make(team, call, out);
  // Decided once, for all starts, before a team is made for them.
  if (const Choice& choice = Dispatcher::choice(team, call); !Dispatcher::runs(choice))
    return Dispatcher::not_run(choice);
  Team* own = nullptr;
  TUTTI_TRY(make_team_of(team, &own));
  if (const Status status = make(*own, call, out); !status.ok()) {
    retire(*own);
    return status;
  }
  (*out)->owns_team = true;
  return Status::success();
}

Status JobImpl::restart(Operation& operation) noexcept {
  Engine::Guard guard(engine_);
  return begin(operation, guard);
}

Status JobImpl::start(Team& team, const Call& call, Operation** out) noexcept {
  Engine::Guard guard(engine_);
  Operation* operation = nullptr;
  TUTTI_TRY(make(team, call, &operation));
  if (const Status status = begin(*operation, guard); !status.ok()) {
    destroy(operation);
    return status;
  }
  *out = operation;
  return Status::success();
}

Status JobImpl::begin(Operation& operation, Engine::Guard& guard) noexcept {
  if (!orphans_.empty()) sweep();
  return operation.start(guard);
}

bool JobImpl::test(Operation& operation, Status* outcome) noexcept {
  if (operation.active()) {
    Engine::Guard guard(engine_);
    operation.look();
    while (operation.active() && engine_.poll()) {
    }
    if (operation.active()) glance();
    if (operation.active()) return false;
  }
  *outcome = operation.outcome;
  return true;
}

Status JobImpl::wait(Operation& operation) noexcept {
  if (operation.active()) {
    Engine::Guard guard(engine_);
    operation.wait(guard);
  }
  return operation.outcome;
}

void JobImpl::relax(std::uint32_t round) noexcept {
  Engine::Guard guard(engine_);
  taskless_.give_tasks();
  if (!engine_.poll()) engine_.relax_beside(round, guard);
}

void JobImpl::progress() noexcept {
  if (engine_.background().pending() == 0 && engine_.background().passive() == 0 &&
      !messages_.in_use() && taskless_.empty())
    return;
  Engine::Guard guard(engine_);
  while (engine_.poll()) {
  }
  glance();
}

/// Polled in vain. Requests to dedicated processors that have no task get one when it takes long,
/// since only waits are told of losses.
void JobImpl::glance() noexcept {
  if (engine_.glance()) taskless_.give_tasks();
}

void JobImpl::release(Operation* operation) noexcept {
  Engine::Guard guard(engine_);
  // Under the lock: whoever has just ended it may still be on its last steps in the task's frame.
  operation->look();
  if (!operation->active()) return destroy(operation);
  operation->give_task();
  orphans_.push_back(operation);
}

Left JobImpl::left(const Team& team, const Call& call) noexcept {
  if (team.size() == 1 || moves_nothing(call)) return Left::no;
  Engine::Guard guard(engine_);
  const Choice& choice = Dispatcher::choice(team, call);
  bool on_trial = false;
  if (runner_of(team, call, &on_trial) == Runner::host)
    return on_trial ? Left::on_trial : Left::measured;
  if (choice.algorithm == nullptr || !choice.algorithm->left_to_host()) return Left::no;
  const Choice* const forced = dispatcher_.policy().forced.of(call.coll);
  if (forced != nullptr && forced->algorithm->left_to_host()) return Left::forced;
  return dispatcher_.policy().site.of(team.choices->shape_of(call)) != nullptr ? Left::site
                                                                               : Left::built_in;
}

const char* JobImpl::algorithm(const Team& team, const Call& call) noexcept {
  if (team.size() == 1 || moves_nothing(call)) return "local";
  Engine::Guard guard(engine_);
  bool on_trial = false;
  const Choice& choice = choice_of(runner_of(team, call, &on_trial), team, call);
  return choice.algorithm == nullptr ? "none" : choice.algorithm->name;
}

MemoryUse JobImpl::memory() const noexcept {
  return {heap_.reserved(), heap_.used() + Directory::bytes(), Board::bytes(kManyCells)};
}

}  // namespace tutti
