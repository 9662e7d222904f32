#include "core/job.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "base/log.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {
namespace {

p2p::Options message_options(const Settings& settings) noexcept {
  p2p::Options options;
  options.eager = settings.eager;
  options.allowance = settings.unexpected;
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

bool nothing_to_do(const Call& call) noexcept {
  return call.bytes == 0 && call.coll != Coll::barrier;
}

}  // namespace

struct TeamEntry {
  JobImpl* job = nullptr;
  std::unique_ptr<Team> team;  // nullptr for the teams of a layer, which belong to theirs
  std::size_t place = 0;       // in JobImpl::teams_
  Choices* choices = nullptr;  // of all teams of its shape
  std::unique_ptr<TeamEntry> node, leaders, lane;  // of the layers
};

JobImpl::JobImpl(const Settings& settings, std::unique_ptr<Fabric> fabric, const WaitPolicy& policy,
                 const HostPump& pump, bool threads)
    : settings_(settings),
      fabric_(std::move(fabric)),
      engine_(*fabric_, policy, pump, threads),
      heap_(*fabric_, Directory::bytes()),
      messages_(engine_, heap_, message_options(settings)),
      blocks_(heap_, settings.block, settings.ring),
      resources_{engine_,
                 heap_,
                 directory_,
                 blocks_,
                 &JobImpl::run_layer,
                 &JobImpl::adopt_lane,
                 &JobImpl::collect_blocks,
                 this,
                 settings.multicast_receives} {}

Status JobImpl::create(const Settings& settings, std::unique_ptr<Fabric> fabric, int node_ranks,
                       int cores, const HostPump& pump, bool threads,
                       std::unique_ptr<JobImpl>* out) {
  bool between_nodes = false;
  for (std::int32_t peer = 0; peer < fabric->size() && !between_nodes; ++peer)
    between_nodes = !fabric->maps(peer) && fabric->reaches(peer);
  const WaitPolicy policy = choose_wait_policy(node_ranks, cores, between_nodes, settings);
  std::unique_ptr<JobImpl> job(new (std::nothrow)
                                   JobImpl(settings, std::move(fabric), policy, pump, threads));
  if (!job) return Status::error(Code::no_memory, "out of memory");
  std::string message;
  const Status forced = Forced::parse(settings.algorithm, &job->forced_, &message);
  if (!forced.ok()) {
    log(LogLevel::error, "%s", message.c_str());
    return forced;
  }
  if (!settings.choices.empty()) {
    const Status tuned = Rules::load(settings.choices, &job->site_rules_, &message);
    if (!tuned.ok()) {
      log(LogLevel::error, "TUTTI_CHOICES: %s", message.c_str());
      return tuned;
    }
  }
  TUTTI_TRY(Directory::create(*job->fabric_, &job->directory_));
  TUTTI_TRY(job->messages_.open());
  job->messages_.answer();
  job->engine_.set_progress_thread(settings.progress_thread != Switch::off, settings.progress_cpu);
  *out = std::move(job);
  return Status::success();
}

JobImpl::~JobImpl() {
  if (client_) client_->leave();
  messages_.finish_sending();
  engine_.stop_progress_thread();
  for (Operation* operation : orphans_) {
    operation->owns_team = false;  // all teams go now
    destroy(operation);
  }
}

Status JobImpl::create_team(const TeamSpec& spec, Team** out) {
  Engine::Guard guard(engine_);
  return make_team(spec, Team::Use::any, out);
}

Status JobImpl::make_team(const TeamSpec& spec, Team::Use use, Team** out) {
  sweep();
  auto entry = std::make_unique<TeamEntry>();
  const Status created =
      Team::create(resources_, spec.id, spec.rank, spec.size, spec.members, use, &entry->team);
  if (!created.ok()) return tell_missing(spec, created);
  Team& team = *entry->team;
  if (client_ && spec.size > 1 && !team.declined()) {
    if (const Status served = client_->add(team); !served.ok()) team.decline();
  }
  if (const Status announced = team.announce(); !announced.ok()) {
    if (client_) client_->remove(team);
    // Members on this node learn it from the directory, and are told when it is released.
    if (announced.code != Code::invalid_argument) released_.push_back(std::move(entry));
    return tell_missing(spec, announced);
  }
  Layers* const layers = team.layers();
  choose_algorithms(team, *entry, spec.size > 1 && layers == nullptr);
  if (layers != nullptr && layers->node) {
    choose_algorithms(*layers->node, *(entry->node = std::make_unique<TeamEntry>()), false);
  }
  if (layers != nullptr && layers->leaders) {
    choose_algorithms(*layers->leaders, *(entry->leaders = std::make_unique<TeamEntry>()), true);
  }
  *out = &team;
  entry->place = teams_.size();
  teams_.push_back(std::move(entry));
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

/// What the choices of a team depend on.
Shape JobImpl::base_shape_of(const Team& team) const noexcept {
  Shape shape;
  shape.size = team.size();
  shape.mapped = team.mapped();
  shape.layered = team.layers() != nullptr;
  shape.mail = !team.mapped() && team.size() <= Inbox::kMostMail;
  shape.acks = shape.mail;
  shape.scarce = fabric_->traits().scarce;
  shape.bypass = fabric_->traits().bypass;
  shape.datagram = team.mapped() ? 0 : fabric_->traits().datagram_bytes;
  shape.segments = shape.layered || shape.mail;
  shape.alone = shape.mail && !shape.layered;
  shape.lanes = shape.layered ? team.layers()->each() : 0;
  shape.user_memory = fabric_->traits().user_memory;
  shape.dedicated = team.served != nullptr;
  shape.fixed_order = settings_.fixed_order;
  shape.block_bytes = blocks_.block_bytes();
  return shape;
}

/// `say`: log where an algorithm that was asked for cannot run.
void JobImpl::choose_algorithms(Team& team, TeamEntry& entry, bool say) {
  entry.job = this;
  entry.choices = &choices_.of(base_shape_of(team));
  team.host_data = &entry;
  if (!say || said_where_not_forced_) return;
  said_where_not_forced_ = true;
  if (team.rank() == 0) say_where_not_forced(*entry.choices);
}

void JobImpl::say_where_not_forced(Choices& choices) {
  constexpr OperatorClass kUsual = OperatorClass::divisible;
  for (int i = 0; i < kColls; ++i) {
    const Coll coll = static_cast<Coll>(i);
    if (forced_.of(coll) == nullptr) continue;
    const std::string where =
        where_not_forced(choices.shape(coll, kUsual), forced_, choices.table(coll, kUsual));
    if (!where.empty()) log(LogLevel::warn, "%s", where.c_str());
  }
}

/// A collective of a layer, within one of the whole team.
Task JobImpl::run_layer(Team& team, const Call& call) noexcept {
  if (nothing_to_do(call)) co_return Status::success();
  JobImpl& job = *static_cast<const TeamEntry*>(team.host_data)->job;
  const Choice& choice = job.choice_for(team, call);
  if (choice.algorithm == nullptr)
    co_return Status::error(Code::unsupported, "no algorithm can run here");
  Collective collective(team, call);
  collective.take_place(job.items_of(team, call, choice));
  if (choice.algorithm->casts) co_await team.open_multicast();
  if (!team.connected()) co_await team.connect();
  co_await choice.algorithm->run(collective, choice.parameters);
  co_return Status::success();
}

void JobImpl::adopt_lane(Team& whole, Team& lane) noexcept {
  auto& entry = *static_cast<TeamEntry*>(whole.host_data);
  entry.lane = std::make_unique<TeamEntry>();
  entry.job->choose_algorithms(lane, *entry.lane, false);
}

/// Asked by every collective that waits for memory, of which there may be thousands: one of them
/// looks for all.
bool JobImpl::collect_blocks(void* self) noexcept {
  constexpr std::uint64_t kPauseNs = 50'000;
  auto& job = *static_cast<JobImpl*>(self);
  const std::uint64_t now = job.fabric_->now_ns();
  if (now - job.collected_ns_ < kPauseNs) return job.blocks_coming_;
  job.collected_ns_ = now;
  job.blocks_coming_ = false;
  for (const auto& entry : job.teams_) {
    if (entry->team->collect_blocks()) job.blocks_coming_ = true;
    const Layers* const layers = entry->team->layers();
    if (layers != nullptr && layers->node && layers->node->collect_blocks())
      job.blocks_coming_ = true;
  }
  return job.blocks_coming_;
}

void JobImpl::release_team(Team* team) noexcept {
  Engine::Guard guard(engine_);
  retire(*team);
  sweep();
}

/// This end is given up; its memory is kept until the other members have done so too.
void JobImpl::retire(Team& team) noexcept {
  const std::size_t place = static_cast<TeamEntry*>(team.host_data)->place;
  messages_.forget(team);
  if (client_) client_->remove(team);
  released_.push_back(std::move(teams_[place]));
  if (place + 1 != teams_.size()) {
    teams_[place] = std::move(teams_.back());
    teams_[place]->place = place;
  }
  teams_.pop_back();
}

void JobImpl::sweep() noexcept {
  std::erase_if(orphans_, [this](Operation* operation) {
    if (tutti::active(*operation)) return false;
    destroy(operation);
    return true;
  });
  std::erase_if(released_, [](const auto& entry) { return entry->team->try_reclaim(); });
}

Shape JobImpl::shape_of(const Team& team, const Call& call) const noexcept {
  Shape shape;
  shape.coll = call.coll;
  shape.bytes = call.bytes;
  shape.size = team.size();
  shape.datagram = team.mapped() ? 0 : fabric_->traits().datagram_bytes;
  shape.block_bytes = blocks_.block_bytes();
  if (call.reduction != nullptr) shape.element_bytes = call.reduction->element_bytes;
  if (call.coll == Coll::allgatherv) {
    shape.longest_block = *std::max_element(call.counts, call.counts + team.size());
  }
  return shape;
}

std::uint64_t JobImpl::items_of(const Team& team, const Call& call,
                                const Choice& choice) const noexcept {
  return choice.algorithm->items == nullptr
             ? 0
             : choice.algorithm->items(shape_of(team, call), choice.parameters);
}

const Choice& JobImpl::choice_for(const Team& team, const Call& call) const noexcept {
  return static_cast<const TeamEntry*>(team.host_data)->choices->of(call);
}

Task JobImpl::connect_and_run(Collective& collective, const Choice& choice) noexcept {
  if (choice.algorithm->casts) co_await collective.team.open_multicast();
  co_await collective.team.connect();
  co_await choice.algorithm->run(collective, choice.parameters);
  co_return Status::success();
}

Status JobImpl::run(Team& team, const Call& call) noexcept {
  if (nothing_to_do(call)) return Status::success();
  if (team.size() == 1) {
    run_on_one_rank(call);
    return Status::success();
  }
  Engine::Guard guard(engine_);
  if (engine_.broken(team.membership())) [[unlikely]]
    return team.membership().broken;
  const Choice& choice = choice_for(team, call);
  if (choice.algorithm == nullptr)
    return Status::error(Code::unsupported, "no algorithm can run here");
  const bool offloaded = choice.algorithm->offloaded;
  Collective collective(team, call);
  if (!offloaded) collective.take_place(items_of(team, call, choice));
  const Status status = engine_.run(
      [&] {
        return offloaded || team.connected() ? choice.algorithm->run(collective, choice.parameters)
                                             : connect_and_run(collective, choice);
      },
      guard);
  return status.ok() ? status : tell_failure(team, status);
}

/// The other members are told, unless each sees it for itself. Gives what all of them report.
Status JobImpl::tell_failure(Team& team, const Status& why) noexcept {
  return team.lacks_a_member() ? why : engine_.fail(team.membership(), why);
}

Status JobImpl::fail(Team& team, const Status& why) noexcept {
  Engine::Guard guard(engine_);
  return engine_.fail(team.membership(), why);
}

Status JobImpl::fail(Operation& operation, const Status& why) noexcept {
  return fail(operation.team, why);
}

Task JobImpl::run_operation(Operation& operation) noexcept {
  Team& team = operation.team;
  const bool offloaded = operation.choice->algorithm->offloaded;
  Status status;
  if (!offloaded && !team.connected()) status = co_await outcome(team.connect());
  if (status.ok()) {
    status = co_await outcome(
        operation.choice->algorithm->run(operation.collective, operation.choice->parameters));
  }
  if (!status.ok()) status = tell_failure(team, status);
  operation.outcome = status;
  operation.active.store(false, std::memory_order_release);
  if (offloaded) {
    engine_.operation_rested();
  } else {
    engine_.operation_finished();
  }
  co_return status;
}

// ---- operations

/// From the engine's pool, under its lock.
Status JobImpl::make(Team& team, const Call& call, Operation** out) noexcept {
  const Choice* choice = nullptr;
  if (team.size() > 1 && !nothing_to_do(call)) {
    choice = &choice_for(team, call);
    if (choice->algorithm == nullptr)
      return Status::error(Code::unsupported, "no algorithm can run here");
  }
  void* const memory = frames().allocate(sizeof(Operation));
  if (memory == nullptr)
    return engine_.fail(team.membership(), Status::error(Code::no_memory, "out of memory"));
  *out = new (memory) Operation(team, call);
  (*out)->choice = choice;
  return Status::success();
}

void JobImpl::destroy(Operation* operation) noexcept {
  if (operation->owns_team) retire(operation->team);
  operation->~Operation();
  FramePool::release(operation);
}

Status JobImpl::prepare(Team& team, const Call& call, Operation** out) noexcept {
  Engine::Guard guard(engine_);
  if (team.size() == 1 || nothing_to_do(call)) return make(team, call, out);
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
  if (operation.choice == nullptr) {
    if (!nothing_to_do(operation.call)) run_on_one_rank(operation.call);
    operation.outcome = Status::success();
    return Status::success();
  }
  if (!orphans_.empty()) sweep();
  if (engine_.broken(operation.team.membership())) [[unlikely]]
    return operation.team.membership().broken;
  const bool offloaded = operation.choice->algorithm->offloaded;
  if (offloaded && hand_over(operation)) return Status::success();
  guard.escalate();
  if (!offloaded) {
    operation.collective.take_place(items_of(operation.team, operation.call, *operation.choice));
  }
  operation.active.store(true, std::memory_order_relaxed);
  operation.task = run_operation(operation);
  if (operation.task.done()) {  // no memory for its frame
    operation.active.store(false, std::memory_order_relaxed);
    return engine_.fail(operation.team.membership(), operation.task.result());
  }
  if (offloaded) {
    engine_.operation_rests();
  } else {
    engine_.operation_started();
  }
  operation.task.start();
  return Status::success();
}

bool JobImpl::test(Operation& operation, Status* outcome) noexcept {
  if (operation.active.load(std::memory_order_acquire)) {
    Engine::Guard guard(engine_);
    take_answer(operation);
    while (operation.active.load(std::memory_order_relaxed) && engine_.poll()) {
    }
    if (operation.active.load(std::memory_order_relaxed)) glance();
    if (operation.active.load(std::memory_order_relaxed)) return false;
  }
  *outcome = operation.outcome;
  return true;
}

Status JobImpl::wait(Operation& operation) noexcept {
  if (operation.active.load(std::memory_order_acquire)) {
    Engine::Guard guard(engine_);
    if (operation.bare.load(std::memory_order_relaxed)) {
      for (std::uint32_t i = engine_.policy().spins; i != 0 && !operation.handed.answered(); --i)
        cpu_pause();
      take_answer(operation);
      attend(operation);
    }
    if (operation.active.load(std::memory_order_acquire)) {
      engine_.wait_until([&operation] { return !operation.active.load(std::memory_order_acquire); },
                         guard);
    }
  }
  return operation.outcome;
}

void JobImpl::relax(std::uint32_t round) noexcept {
  Engine::Guard guard(engine_);
  attend_all();
  if (!engine_.poll()) engine_.relax(round, guard);
}

void JobImpl::progress() noexcept {
  if (engine_.pending() == 0 && engine_.resting() == 0 && !messages_.in_use() &&
      bare_count_.load(std::memory_order_relaxed) == 0)
    return;
  Engine::Guard guard(engine_);
  while (engine_.poll()) {
  }
  glance();
}

/// Polled in vain. Requests to dedicated processors that have no task get one when it takes long,
/// since only waits are told of losses.
void JobImpl::glance() noexcept {
  if (engine_.glance()) attend_all();
}

void JobImpl::release(Operation* operation) noexcept {
  Engine::Guard guard(engine_);
  // Under the lock: whoever has just finished the task may still be on its last steps in the frame.
  take_answer(*operation);
  if (!operation->active.load(std::memory_order_acquire)) return destroy(operation);
  attend(*operation);
  operation->released = true;
  orphans_.push_back(operation);
}

// ---- requests to dedicated processors without a task: one put to start, one look at a flag

bool JobImpl::hand_over(Operation& operation) noexcept {
  auto& port = *static_cast<offload::Port*>(operation.team.served);
  if (!port.client->hand_over(port, operation.call, &operation.handed)) return false;
  bare_.push_back(operation);
  bare_count_.fetch_add(1, std::memory_order_relaxed);
  operation.bare.store(true, std::memory_order_relaxed);
  operation.active.store(true, std::memory_order_release);
  return true;
}

/// Ends a request whose answer has come; anything else stays as it is.
void JobImpl::take_answer(Operation& operation) noexcept {
  if (!operation.bare.load(std::memory_order_relaxed) || !operation.handed.answered()) return;
  auto& port = *static_cast<offload::Port*>(operation.team.served);
  operation.outcome = port.client->take(port, operation.call, operation.handed);
  if (!operation.outcome.ok())
    operation.outcome = engine_.fail(operation.team.membership(), operation.outcome);
  bare_.remove(operation);
  bare_count_.fetch_sub(1, std::memory_order_relaxed);
  operation.bare.store(false, std::memory_order_relaxed);
  operation.active.store(false, std::memory_order_release);
}

/// Somebody waits now, or nobody will look any more: a task awaits the answer, so that the engine
/// sees when it has come and who is lost.
void JobImpl::attend(Operation& operation) noexcept {
  if (!operation.bare.load(std::memory_order_relaxed)) return;
  bare_.remove(operation);
  bare_count_.fetch_sub(1, std::memory_order_relaxed);
  operation.bare.store(false, std::memory_order_release);
  engine_.operation_rests();
  operation.task = await_answer(operation);
  if (!operation.task.done()) return operation.task.start();
  operation.outcome = operation.task.result();  // no memory for its frame
  operation.active.store(false, std::memory_order_release);
  engine_.operation_rested();
}

void JobImpl::attend_all() noexcept {
  for (Operation* operation = bare_.first(); operation != nullptr;) {
    Operation* const next = bare_.next(*operation);
    if (!operation->handed.answered()) attend(*operation);
    operation = next;
  }
}

Task JobImpl::await_answer(Operation& operation) noexcept {
  auto& port = *static_cast<offload::Port*>(operation.team.served);
  operation.outcome = co_await outcome(port.client->await(port, operation.call, operation.handed));
  if (!operation.outcome.ok())
    operation.outcome = engine_.fail(operation.team.membership(), operation.outcome);
  operation.active.store(false, std::memory_order_release);
  engine_.operation_rested();
  co_return operation.outcome;
}

const char* JobImpl::algorithm(const Team& team, const Call& call) noexcept {
  if (team.size() == 1 || nothing_to_do(call)) return "local";
  Engine::Guard guard(engine_);
  const Choice& choice = choice_for(team, call);
  return choice.algorithm == nullptr ? "none" : choice.algorithm->name;
}

MemoryUse JobImpl::memory() const noexcept {
  return {heap_.reserved(), heap_.used() + Directory::bytes(), Team::board_bytes()};
}

bool active(const Operation& operation) noexcept {
  if (!operation.active.load(std::memory_order_acquire)) return false;
  return !operation.bare.load(std::memory_order_acquire) || !operation.handed.answered();
}

}  // namespace tutti
