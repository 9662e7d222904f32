#include "sim/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>

#include "sim/catch_up.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kTeamId[2] = {0x73696d, 1};
constexpr int kMostWithSegments = 4096;  // ranks: every arena has room for a segment
constexpr std::size_t kRingBytes = std::size_t{1} << 20;
constexpr std::size_t kFramesPerRank =
    1024;  // measured: coroutine frames of a collective that waits
constexpr std::size_t kEventsPerRank = 256;  // messages and queue entries under way
constexpr std::size_t kPayloadArena = std::size_t{1} << 26;

std::size_t free_memory() noexcept {
  // What the kernel thinks can be had without swapping; caches count as free.
  std::size_t kib = 0;
  if (std::FILE* file = std::fopen("/proc/meminfo", "r")) {
    char line[128];
    while (std::fgets(line, sizeof line, file) != nullptr &&
           std::sscanf(line, "MemAvailable: %zu", &kib) != 1) {
    }
    std::fclose(file);
  }
  if (kib != 0) return kib << 10;
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string gib(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

bool has_layers(const JobSpec& spec) noexcept {
  return spec.hierarchical && spec.nodes > 1 && spec.ranks_per_node > 1;
}

}  // namespace

/// What a rank is made of. The fabric is the world's.
struct SimJob::Rank {
  Rank(SimFabric& its_fabric, FramePool& frames, std::size_t heap_begin, const JobSpec& spec,
       Dispatcher& dispatcher)
      : fabric(its_fabric),
        engine(its_fabric, WaitPolicy{}, HostPump{}, false, &frames),
        heap(its_fabric, heap_begin),
        blocks(heap, spec.block_bytes, std::max(kRingBytes, spec.block_bytes)),
        resources{engine, heap, directory, blocks, &dispatcher} {
    resources.multicast_receives = spec.multicast_receives;
    resources.symmetric_layers = has_layers(spec);
    resources.symmetric_segments = its_fabric.size() <= kMostWithSegments;
  }
  FramePool& frames() noexcept { return engine.frames(); }

  // First what every event touches: kHot bytes.
  SimFabric& fabric;
  Call call;
  std::optional<Collective> collective;  // of `task`
  Engine engine;
  static constexpr std::size_t kHot = 4 * kCacheLine;

  ArenaHeap heap;
  Directory directory;
  BlockPool blocks;
  TeamResources resources;
  std::unique_ptr<Team> team;
  Task task;
  Task behind;   // a collective that runs while the program computes
  Word over{0};  // how many of them are over
  Time started = 0;
  Time finished = 0;
};

std::size_t SimJob::bytes_per_rank() noexcept {
  return sizeof(SimFabric) + sizeof(Rank) + sizeof(Team) + kFramesPerRank + kEventsPerRank;
}

SimJob::~SimJob() {
  for (int rank = 0; rank < constructed_; ++rank) std::destroy_at(ranks_ + rank);
}

Status SimJob::create(const JobSpec& spec, std::unique_ptr<SimJob>* out, std::string* message) {
  if (spec.nodes < 1 || spec.ranks_per_node < 1 || spec.nodes > (1 << 30) / spec.ranks_per_node) {
    *message = "nodes and ranks per node must be from 1, and together at most 2^30 ranks";
    return Status::error(Code::invalid_argument, "ranks");
  }
  const int size = spec.nodes * spec.ranks_per_node;
  const bool hierarchical = has_layers(spec);
  const bool mapped = spec.nodes == 1 || hierarchical;  // somebody shares memory with somebody
  std::size_t per_rank = bytes_per_rank();
  if (!spec.elided || mapped)
    per_rank += Board::bytes(kManyCells) + Inbox::bytes(size, spec.elided, !mapped);
  const std::size_t needed = per_rank * static_cast<std::size_t>(size);
  if (const std::size_t available = free_memory(); needed > available) {
    *message = std::to_string(size) + " ranks need about " + gib(needed) + " of memory, " +
               gib(available) + " are free" +
               (spec.elided ? "" : " (without payload it would be less)");
    return Status::error(Code::no_memory, "memory");
  }
  std::unique_ptr<SimJob> job(new SimJob(spec.policy));
  WorldSpec world{spec.nodes,    spec.ranks_per_node, spec.network,  spec.elided,
                  kPayloadArena, spec.noise,          spec.trace,    spec.most_carried,
                  spec.scarce,   spec.user_memory,    spec.scattered};
  if (spec.elided && !mapped)
    world.arena_bytes = ArenaHeap::rounded(Inbox::bytes(size, true, true)) + 128;
  if (size <= kMostWithSegments)  // the team's, and its leaders'
    world.arena_bytes +=
        (hierarchical ? 2 : 1) * ArenaHeap::rounded(NodeSegment::bytes_for_most(size));
  TUTTI_TRY(World::create(world, &job->world_, message));
  job->world_->on_lost = depends_on;
  job->members_.resize(static_cast<std::size_t>(size));
  std::iota(job->members_.begin(), job->members_.end(), 0);
  if (!job->memory_.allocate(static_cast<std::size_t>(size) * sizeof(Rank), true)) {
    *message = "no address space for " + std::to_string(size) + " ranks";
    return Status::error(Code::no_memory, "ranks");
  }
  job->ranks_ = reinterpret_cast<Rank*>(job->memory_.data());
  job->world_->touches(job->ranks_, sizeof(Rank), Rank::kHot);
  for (int i = 0; i < size; ++i) {
    Rank& rank =
        *new (job->ranks_ + i) Rank(job->world_->fabric(i), job->frames_,
                                    mapped ? Directory::bytes() : 0, spec, job->dispatcher_);
    ++job->constructed_;
    Status status = mapped ? Directory::create(rank.fabric, &rank.directory) : Status::success();
    if (status.ok()) {
      status =
          Team::create(rank.resources, kTeamId, i, size, job->members_.data(), true, &rank.team);
    }
    if (!status.ok()) {
      *message = std::string("rank ") + std::to_string(i) + ": " +
                 (status.detail != nullptr ? status.detail : name(status.code));
      return status;
    }
  }
  for (int i = 0; i < size; ++i) job->ranks_[i].fabric.advance_to(skew_of(spec.noise, i));
  *out = std::move(job);
  return Status::success();
}

Team& SimJob::team(int rank) noexcept { return *ranks_[rank].team; }
Time SimJob::started(int rank) const noexcept { return ranks_[rank].started; }
Time SimJob::finished(int rank) const noexcept { return ranks_[rank].finished; }

bool SimJob::needs_layers(const Choice& choice, int nodes, int ranks_per_node) noexcept {
  if (nodes < 2 || ranks_per_node < 2) return false;
  Shape shape = Shape::of({nodes, ranks_per_node}, Traits{}, JobSpec{}.block_bytes);
  shape.coll = choice.algorithm->coll;
  return choice.algorithm->restriction(shape, choice.parameters) == nullptr;
}

Shape SimJob::shape_of(const Call& call) { return dispatcher_.choices(team(0)).shape().with(call); }

const char* SimJob::restriction(const Choice& choice, const Call& call) {
  return choice.algorithm->restriction(shape_of(call), choice.parameters);
}

bool SimJob::depends_on(const void* membership, int lost) noexcept {
  auto& members = *static_cast<Membership*>(const_cast<void*>(membership));
  const bool concerned =
      std::find(members.ranks, members.ranks + members.size, lost) != members.ranks + members.size;
  if (concerned) members.broken = Status::peer_lost(lost, "the rank is lost");
  return concerned;
}

/// A collective that was started and not waited for; says so when it is over.
Task SimJob::run_behind(Rank& rank, const Choice& choice, std::uint64_t items) noexcept {
  Collective collective(*rank.team, rank.call);
  collective.take_place(items, choice.algorithm->watched);
  const Status status = co_await outcome(choice.algorithm->run(collective, choice.parameters));
  rank.over.store(rank.over.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  co_return status;
}

/// Computes all of it; until `wanted` collectives are over, with looks in between.
Task SimJob::compute_and_poll(Rank& rank, Program program, std::uint64_t wanted) noexcept {
  Time left = program.compute;
  while (left > 0 && rank.over.load(std::memory_order_relaxed) < wanted) {
    const Time slice = std::min(left, program.poll_every);
    left -= slice;
    rank.fabric.compute(slice + program.poll);
    co_await catch_up(rank.engine, rank.fabric, rank.team->membership());
  }
  rank.fabric.compute(left);
  co_return Status::success();
}

Task SimJob::run_rank(Rank& rank, const Choice& choice, std::uint64_t items, int repeat,
                      Program program) noexcept {
  Team& team = *rank.team;
  if (!team.connected()) co_await team.connect();
  for (int i = 0; i < repeat; ++i) {
    if (program.progress == Progress::blocking) {
      if (program.compute != 0) rank.fabric.compute(program.compute);
      Collective collective(team, rank.call);
      collective.take_place(items, choice.algorithm->watched);
      co_await choice.algorithm->run(collective, choice.parameters);
      continue;
    }
    const std::uint64_t wanted = rank.over.load(std::memory_order_relaxed) + 1;
    rank.behind = run_behind(rank, choice, items);
    rank.behind.start();
    if (program.progress == Progress::polled) {
      co_await compute_and_poll(rank, program, wanted);
    } else {
      rank.fabric.compute(program.compute,
                          program.progress == Progress::interrupt ? &rank.over : nullptr);
    }
    co_await rank.engine.reached(rank.over, wanted, team.membership());
    rank.fabric.compute(0);
    co_await rank.behind.result();
  }
  co_return Status::success();
}

Status SimJob::run(const Choice& choice, const std::function<Call(int)>& call_of, int repeat,
                   const Program& program, std::string* message) {
  for (int i = 0; i < size(); ++i) ranks_[i].call = call_of(i);
  if (const char* why = restriction(choice, ranks_[0].call)) {
    *message = std::string(name(choice.algorithm->coll)) + " " + choice.algorithm->name +
               " cannot run here: " + why;
    return Status::error(Code::unsupported, why);
  }
  if (size() == 1 || moves_nothing(ranks_[0].call)) return run_without_algorithm();
  const std::uint64_t items = Dispatcher::items(team(0), ranks_[0].call, choice);
  for (int i = 0; i < size() && choice.algorithm->casts; ++i) TUTTI_TRY(team(i).open_multicast());
  for (int i = 0; i < size(); ++i) {
    Rank& rank = ranks_[i];
    rank.fabric.advance_to(world_->now());  // nobody acts in the past
    rank.started = rank.fabric.clock();
    if (repeat == 1 && program.compute == 0 && rank.team->connected()) {  // a frame less to touch
      rank.collective.emplace(*rank.team, rank.call).take_place(items, choice.algorithm->watched);
      rank.task = choice.algorithm->run(*rank.collective, choice.parameters);
    } else {
      rank.task = run_rank(rank, choice, items, repeat, program);
    }
    if (!rank.task.done()) rank.task.start();
    world_->settle(i);
  }
  world_->run();
  for (int i = 0; i < size(); ++i)
    ranks_[i].finished = ranks_[i].fabric.clock();  // nothing else spends time
  return check_result(message);
}

Status SimJob::run_without_algorithm() noexcept {
  for (int i = 0; i < size(); ++i) {
    Rank& rank = ranks_[i];
    rank.started = rank.finished = rank.fabric.clock();
    if (size() == 1 && !rank.fabric.traits().elided_payload) run_on_one_rank(rank.call);
  }
  return Status::success();
}

Status SimJob::check_result(std::string* message) noexcept {
  bool waiting = false;
  for (int i = 0; i < size(); ++i) {
    const Task& task = ranks_[i].task;
    if (!task.done()) {
      waiting = true;
    } else if (const Status status = task.result(); !status.ok()) {
      *message = status.code == Code::unsupported
                     ? "it cannot run here"
                     : "rank " + std::to_string(i) + ": " + name(status.code);
      if (status.detail != nullptr) *message += std::string(": ") + status.detail;
      return status;
    }
  }
  if (!waiting) return Status::success();
  *message = world_->who_waits();
  return Status::error(Code::internal, "ranks wait for ever");
}

Time SimJob::duration() const noexcept {
  Time first = std::numeric_limits<Time>::max(), last = 0;
  for (int i = 0; i < size(); ++i) {
    first = std::min(first, ranks_[i].started);
    last = std::max(last, ranks_[i].finished);
  }
  return last - first;
}

void SimJob::align() noexcept {
  Time latest = world_->now();
  for (int i = 0; i < size(); ++i) latest = std::max(latest, ranks_[i].fabric.clock());
  for (int i = 0; i < size(); ++i) ranks_[i].fabric.advance_to(latest);
}

void SimJob::delay(int rank, Time duration) noexcept { ranks_[rank].fabric.compute(duration); }

}  // namespace tutti::sim
