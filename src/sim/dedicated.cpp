#include "sim/dedicated.hpp"

#include <algorithm>
#include <cstring>

#include "dispatch/dispatcher.hpp"
#include "engine/engine.hpp"
#include "fabric/sim/sim.hpp"
#include "fabric/sim/world.hpp"
#include "offload/client.hpp"
#include "offload/mapping.hpp"
#include "offload/server.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kTeamId[2] = {0x73696d, 2};
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
constexpr std::size_t kRingBytes = std::size_t{1} << 20;
constexpr std::size_t kArena = std::size_t{1} << 26;

struct Rank {
  Rank(SimFabric& its_fabric, FramePool& frames, Dispatcher& dispatcher)
      : fabric(its_fabric),
        engine(its_fabric, WaitPolicy{}, HostPump{}, false, &frames),
        heap(its_fabric, Directory::bytes()),
        blocks(heap, kBlockBytes, kRingBytes),
        resources{engine, heap, directory, blocks, &dispatcher} {}
  FramePool& frames() noexcept { return engine.frames(); }

  SimFabric& fabric;
  Engine engine;
  ArenaHeap heap;
  Directory directory;
  BlockPool blocks;
  TeamResources resources;
  std::vector<std::unique_ptr<Team>> teams;  // an APP's only one, or those of a DCP
  std::unique_ptr<offload::Client> client;
  std::unique_ptr<offload::Server> server;
  std::size_t offset = 0;  // of the counter or of the rings
  int member = -1;         // of the program's team
  Task task, behind;
  Word over{0};
  std::vector<double> in, out;
  Call call;
  std::vector<Time> start, wait, whole;
};

class Machine {
 public:
  FramePool& frames() noexcept { return frames_; }
  Status create(const DedicatedSpec& spec, std::string* message);
  Status run(const DedicatedRun& run, DedicatedTimes* times, std::string* message);

 private:
  void place(const DedicatedSpec& spec);
  Status connect();
  Status serve(Rank& rank);
  void set_up(Rank& rank, const DedicatedRun& run);
  Task program(Rank& rank, DedicatedRun run) noexcept;
  Task collective(Rank& rank) noexcept;
  bool right(const Rank& rank, int iteration) const noexcept;

  std::unique_ptr<World> world_;
  FramePool frames_;
  Dispatcher dispatcher_{Policy{}};
  std::vector<std::int32_t> members_;  // ranks of the APPs
  std::vector<std::int32_t> map_;      // the DCP of each rank; -1 for DCPs
  std::vector<std::int32_t> processors_;
  Reduction sum_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// Every so many processors a DCP: processor k of each run of (apps + dcps) / dcps is its last.
void Machine::place(const DedicatedSpec& spec) {
  const int total = spec.apps + spec.dcps;
  for (int i = 1; i <= spec.dcps; ++i) {
    const long long end = static_cast<long long>(total) * i / spec.dcps;
    processors_.push_back(static_cast<std::int32_t>(end - 1));
  }
  std::vector<std::int32_t> node_of;
  for (std::int32_t rank = 0; rank < total; ++rank) {
    if (std::binary_search(processors_.begin(), processors_.end(), rank)) continue;
    members_.push_back(rank);
    node_of.push_back(rank / spec.cores);
  }
  for (const std::int32_t processor : processors_) node_of.push_back(processor / spec.cores);
  const auto served = offload::map_apps(node_of, spec.apps);
  map_.assign(static_cast<std::size_t>(world_->ranks()), -1);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    map_[static_cast<std::size_t>(members_[i])] =
        processors_[static_cast<std::size_t>(served[i] - spec.apps)];
  }
}

Status Machine::serve(Rank& rank) {
  const offload::Server::Teams teams{
      [&rank](const std::uint64_t* id, int number, int size, const std::int32_t* members,
              Team** out) {
        std::unique_ptr<Team> team;
        TUTTI_TRY(Team::create(rank.resources, id, number, size, members, false, &team));
        *out = team.get();
        rank.teams.push_back(std::move(team));
        return Status::success();
      },
      [](Team*) {}};  // they go with the machine
  rank.server = std::make_unique<offload::Server>(rank.engine, rank.heap, map_, teams, false);
  return rank.server->open(&rank.offset);
}

Status Machine::create(const DedicatedSpec& spec, std::string* message) {
  if (spec.apps < 1 || spec.dcps < 1 || spec.cores < 1 || spec.dcps > spec.apps ||
      spec.apps > 1 << 14) {
    *message = "there must be from 1 to 16384 APPs, and from 1 DCP to as many";
    return Status::error(Code::invalid_argument, "processors");
  }
  if (!find_reduction(Op::sum, Type::f64, &sum_))
    return Status::error(Code::internal, "no sum of doubles");
  const int total = spec.apps + spec.dcps;
  const int nodes = (total + spec.cores - 1) / spec.cores;
  const WorldSpec world{nodes, spec.cores, spec.network, false, kArena, spec.noise, false};
  TUTTI_TRY(World::create(world, &world_, message));
  place(spec);
  for (int i = 0; i < world_->ranks(); ++i) {
    ranks_.push_back(std::make_unique<Rank>(world_->fabric(i), frames_, dispatcher_));
    TUTTI_TRY(Directory::create(ranks_.back()->fabric, &ranks_.back()->directory));
  }
  for (const std::int32_t processor : processors_)
    TUTTI_TRY(serve(*ranks_[static_cast<std::size_t>(processor)]));
  for (const std::int32_t member : members_) {
    Rank& rank = *ranks_[static_cast<std::size_t>(member)];
    rank.client = std::make_unique<offload::Client>(rank.engine, rank.heap, map_);
    TUTTI_TRY(rank.client->open(&rank.offset));
  }
  return connect();
}

Status Machine::connect() {
  std::vector<std::uint64_t> taken;
  for (const auto& rank : ranks_) taken.push_back(rank->offset);
  std::vector<std::size_t> served(ranks_.size(), 0);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Rank& rank = *ranks_[static_cast<std::size_t>(members_[i])];
    const auto by = static_cast<std::size_t>(map_[static_cast<std::size_t>(members_[i])]);
    rank.member = static_cast<int>(i);
    TUTTI_TRY(rank.client->connect(ranks_[by]->offset, served[by]++));
  }
  for (const std::int32_t processor : processors_)
    TUTTI_TRY(ranks_[static_cast<std::size_t>(processor)]->server->start(taken.data()));
  for (const std::int32_t member : members_) {
    Rank& rank = *ranks_[static_cast<std::size_t>(member)];
    std::unique_ptr<Team> team;
    // Symmetric: an APP's end of the team has no memory of its own, because nothing runs in it.
    TUTTI_TRY(Team::create(rank.resources, kTeamId, rank.member, static_cast<int>(members_.size()),
                           members_.data(), true, &team));
    TUTTI_TRY(rank.client->add(*team));
    rank.teams.push_back(std::move(team));
  }
  return Status::success();
}

/// The collective, beside the program that waits for it.
Task Machine::collective(Rank& rank) noexcept {
  auto& port = *rank.teams.front()->port;
  const Status status = co_await outcome(rank.client->run(port, rank.call));
  rank.over.store(rank.over.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  co_return status;
}

void Machine::set_up(Rank& rank, const DedicatedRun& run) {
  const bool blocks = run.call.coll == Coll::allgather || run.call.coll == Coll::alltoall;
  const std::size_t all = run.call.bytes / sizeof(double) * (blocks ? members_.size() : 1);
  rank.in.assign(std::max<std::size_t>(1, all), 0);
  rank.out.assign(std::max<std::size_t>(1, all), 0);
  rank.call = run.call;
  rank.call.reduction = &sum_;
  rank.call.send = rank.in.data();
  rank.call.recv = rank.out.data();
}

/// Allreduce is the collective of the paper; of the others the simulation wants only the times.
bool Machine::right(const Rank& rank, int iteration) const noexcept {
  if (rank.call.coll != Coll::allreduce) return true;
  const auto count = static_cast<double>(members_.size());
  const double sum = count * iteration + count * (count - 1) / 2;
  const auto elements = static_cast<std::ptrdiff_t>(rank.call.bytes / sizeof(double));
  return std::all_of(rank.out.begin(), rank.out.begin() + elements,
                     [sum](double found) { return found == sum; });
}

Task Machine::program(Rank& rank, DedicatedRun run) noexcept {
  set_up(rank, run);
  auto& members = rank.teams.front()->membership();
  for (int i = 0; i < run.repeat; ++i) {
    std::fill(rank.in.begin(), rank.in.end(), static_cast<double>(rank.member + i));
    const std::uint64_t wanted = rank.over.load(std::memory_order_relaxed) + 1;
    const Time begun = rank.fabric.clock();
    rank.behind = collective(rank);
    rank.behind.start();
    const Time started = rank.fabric.clock();
    rank.fabric.compute(run.compute);
    const Time computed = rank.fabric.clock();
    co_await rank.engine.reached(rank.over, wanted, members);
    rank.fabric.compute(0);
    co_await rank.behind.result();
    if (!right(rank, i)) co_return Status::error(Code::corrupt, "a result is wrong");
    const Time over = rank.fabric.clock();
    rank.start.push_back(started - begun);
    rank.wait.push_back(over - computed);
    rank.whole.push_back(over - begun);
  }
  co_return Status::success();
}

/// The median over iterations of the mean over the APPs.
template <class Get>
Time typical(const std::vector<Rank*>& ranks, int repeat, Get get) {
  std::vector<Time> means;
  // The first iterations make the DCPs' teams.
  for (int i = repeat / 2; i < repeat; ++i) {
    Time sum = 0;
    for (Rank* rank : ranks) sum += get(*rank)[static_cast<std::size_t>(i)];
    means.push_back(sum / ranks.size());
  }
  std::sort(means.begin(), means.end());
  return means[means.size() / 2];
}

Status Machine::run(const DedicatedRun& run, DedicatedTimes* times, std::string* message) {
  std::vector<Rank*> apps;
  for (const std::int32_t member : members_)
    apps.push_back(ranks_[static_cast<std::size_t>(member)].get());
  for (Rank* rank : apps) {
    rank->task = program(*rank, run);
    rank->task.start();
    world_->settle(rank->fabric.rank());
  }
  world_->run();
  for (Rank* rank : apps) {
    if (!rank->task.done()) {
      *message = world_->who_waits();
      return Status::error(Code::internal, "ranks wait for ever");
    }
    const Status status = rank->task.result();
    if (status.ok()) continue;
    *message = "APP " + std::to_string(rank->member) + ": " +
               (status.detail != nullptr ? status.detail : name(status.code));
    return status;
  }
  times->start = typical(
      apps, run.repeat, [](Rank & rank) -> const auto& { return rank.start; });
  times->wait = typical(
      apps, run.repeat, [](Rank & rank) -> const auto& { return rank.wait; });
  times->whole = typical(
      apps, run.repeat, [](Rank & rank) -> const auto& { return rank.whole; });
  times->events = world_->events();
  for (const std::int32_t processor : processors_) {
    const auto served = std::count(map_.begin(), map_.end(), processor);
    times->most_apps = std::max(times->most_apps, static_cast<int>(served));
  }
  return Status::success();
}

}  // namespace

Status run_dedicated(const DedicatedSpec& spec, const DedicatedRun& run, DedicatedTimes* out,
                     std::string* message) {
  if (run.repeat < 2 || run.call.bytes % sizeof(double) != 0 ||
      !offload::can_offload(run.call.coll)) {
    *message = "there must be two iterations or more, of an offloaded collective of whole doubles";
    return Status::error(Code::invalid_argument, "run");
  }
  Machine machine;
  Status status = machine.create(spec, message);
  if (!status.ok() && message->empty())
    *message = status.detail != nullptr ? status.detail : name(status.code);
  if (!status.ok()) return status;
  return machine.run(run, out, message);
}

}  // namespace tutti::sim
