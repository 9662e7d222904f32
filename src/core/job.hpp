// The implementation of Job over a fabric.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "core/teams.hpp"
#include "dispatch/dispatcher.hpp"
#include "engine/engine.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/fabric.hpp"
#include "offload/client.hpp"
#include "offload/server.hpp"
#include "p2p/messages.hpp"
#include "team/team.hpp"

namespace tutti {

/// A collective in flight or persistent. Owned by the host between start()/prepare() and release();
/// by the job after release() while it is active.
class Operation {
 public:
  Operation(Team& its_team, const Call& its_call) noexcept
      : team(its_team), call(its_call), collective(team, call) {}
  Team& team;
  Call call;
  Collective collective;
  const Choice* choice = nullptr;
  Task task;
  Status outcome;
  std::atomic<bool> active{false};  // cleared last, with release, by whoever finishes the task
  bool released = false;
  bool owns_team = false;  // a persistent collective has a team, and so an order, of its own
  // A request to a dedicated processor that has no task: who looks at the operation looks at the
  // answer's flag. `bare` is changed under the engine's lock, and read without it by the thread
  // that asks whether the operation is over.
  offload::Client::Handed handed;
  std::atomic<bool> bare{false};
  p2p::Hook<Operation> in_bare;
};

class JobImpl final : public Job {
 public:
  /// Takes the fabric. `cores`: cores that the ranks on this node may use; `node_ranks`: how many
  /// they are.
  static Status create(const Settings& settings, std::unique_ptr<Fabric> fabric, int node_ranks,
                       int cores, const HostPump& pump, bool threads,
                       std::unique_ptr<JobImpl>* out);
  ~JobImpl() override;

  bool reachable(std::int32_t job_rank) const noexcept override {
    return fabric_->reaches(job_rank);
  }
  Status create_team(const TeamSpec& spec, Team** out) override;
  bool shares_memory(const std::int32_t* members, int size) const noexcept override;
  Status meet(Team& team) noexcept override;
  void release_team(Team* team) noexcept override;
  Status run(Team& team, const Call& call) noexcept override;
  Status fail(Team& team, const Status& why) noexcept override;
  Status fail(Operation& operation, const Status& why) noexcept override;
  Status start(Team& team, const Call& call, Operation** out) noexcept override;
  Status prepare(Team& team, const Call& call, Operation** out) noexcept override;
  Status restart(Operation& operation) noexcept override;
  bool test(Operation& operation, Status* outcome) noexcept override;
  Status wait(Operation& operation) noexcept override;
  void relax(std::uint32_t round) noexcept override;
  void progress() noexcept override;
  void release(Operation* operation) noexcept override;
  p2p::Messages& messages() noexcept override { return messages_; }
  bool serve() noexcept override;
  bool processor_counts(ProcessorCounts* out) const noexcept override;
  /// The ranks from `apps` on are dedicated processors: gives each APP its DCP. Collective over the
  /// bootstrap; fails on all ranks or on none. Before any team is created.
  Status dedicate(int apps, Bootstrap& bootstrap) noexcept;
  Left left(const Team& team, const Call& call) noexcept override;
  const char* algorithm(const Team& team, const Call& call) noexcept override;
  MemoryUse memory() const noexcept override;

  /// Of what decides which algorithms run and is read from a file: must be equal on all ranks.
  std::uint64_t choices_hash() const noexcept { return dispatcher_.policy().site.hash(); }

  FramePool& frames() noexcept { return engine_.frames(); }
  Fabric& fabric() noexcept { return *fabric_; }
  Engine& engine() noexcept { return engine_; }
  Dispatcher& dispatcher() noexcept { return dispatcher_; }

 private:
  JobImpl(const Settings& settings, Policy policy, std::unique_ptr<Fabric> fabric,
          const WaitPolicy& wait, const HostPump& pump, bool threads);
  Status make_team(const TeamSpec& spec, Team::Use use, Team** out);
  Status make_team_of(Team& team, Team** out);
  Status tell_failure(Team& team, const Status& why) noexcept;
  Status tell_missing(const TeamSpec& spec, const Status& why) noexcept;
  void retire(Team& team) noexcept;
  Task run_operation(Operation& operation) noexcept;
  Status make(Team& team, const Call& call, Operation** out) noexcept;
  void destroy(Operation* operation) noexcept;
  Status begin(Operation& operation, Engine::Guard& guard) noexcept;
  bool hand_over(Operation& operation) noexcept;
  void take_answer(Operation& operation) noexcept;
  void attend(Operation& operation) noexcept;
  void attend_all() noexcept;
  void glance() noexcept;
  Task await_answer(Operation& operation) noexcept;
  void sweep() noexcept;
  void choose_algorithms(Team& team);
  void say_where_not_forced(Team& team, Coll coll);
  Status map_apps(int apps, Bootstrap& bootstrap, std::vector<std::int32_t>* map);

  Settings settings_;
  Dispatcher dispatcher_;
  bool said_where_not_forced_ = false;  // once, for the first team
  std::unique_ptr<Fabric> fabric_;
  Engine engine_;
  ArenaHeap heap_;
  Directory directory_;
  p2p::Messages messages_;
  BlockPool blocks_;
  TeamResources resources_;
  Teams teams_{*fabric_};
  std::vector<Operation*> orphans_;                 // released while active
  p2p::List<Operation, &Operation::in_bare> bare_;  // requests that nobody waits for
  std::atomic<std::uint32_t> bare_count_{0};        // of them; written under the engine's lock
  std::unique_ptr<offload::Client> client_;         // where dedicated processors serve this rank
  std::unique_ptr<offload::Server> server_;         // on a dedicated processor
};

}  // namespace tutti
