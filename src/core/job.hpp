// The implementation of Job over a fabric.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "core/core.hpp"
#include "core/processor_operation.hpp"
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
  std::int32_t process(std::int32_t job_rank) const noexcept override {
    return processes_[static_cast<std::size_t>(job_rank)];
  }
  Status create_team(const TeamSpec& spec, Team** out) override;
  bool shares_memory(const std::int32_t* members, int size) const noexcept override;
  Status meet(Team& team) noexcept override;
  void release_team(Team* team) noexcept override;
  void discard_team(Team* team) noexcept override;
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
  /// Of all ranks, before any is asked for.
  void know_processes(std::vector<std::int32_t> processes) noexcept {
    processes_ = std::move(processes);
  }
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
  Status tell_missing(const TeamSpec& spec, const Status& why) noexcept;
  void retire(Team& team) noexcept;
  Status make(Team& team, const Call& call, Operation** out) noexcept;
  Operation* make_kind(Team& team, const Call& call, const Choice& choice) noexcept;
  void destroy(Operation* operation) noexcept;
  Status begin(Operation& operation, Engine::Guard& guard) noexcept;
  void glance() noexcept;
  void sweep() noexcept;
  void choose_algorithms(Team& team);
  void say_where_not_forced(Team& team, Coll coll);
  Status map_apps(int apps, Bootstrap& bootstrap, std::vector<std::int32_t>* map);

  Settings settings_;
  std::vector<std::int32_t> processes_;  // by job rank
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
  std::vector<Operation*> orphans_;          // released while active
  Taskless taskless_;                        // requests to dedicated processors
  std::unique_ptr<offload::Client> client_;  // where dedicated processors serve this rank
  std::unique_ptr<offload::Server> server_;  // on a dedicated processor
};

}  // namespace tutti
