// The implementation of Job over a fabric.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>
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
#include "select/kept.hpp"
#include "select/online.hpp"
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
  const Place& place() const noexcept override { return place_; }
  bool suits_messages() const noexcept override { return suits_messages_; }
  bool sums_exactly() const noexcept override { return settings_.fixed_order == FixedOrder::exact; }
  Status create_team(const TeamSpec& spec, Team** out) override;
  bool shares_memory(const std::int32_t* members, int size) const noexcept override;
  Status meet(Team& team) noexcept override;
  void release_team(Team* team) noexcept override;
  void discard_team(Team* team) noexcept override;
  Status run(Team& team, const Call& call) noexcept override;
  Status run(Team& team, const Call& call, Route* found) noexcept override;
  Status run_by(const Route& route, Team& team, const Call& call) noexcept override;
  bool leaves(const Route& route) noexcept override;
  void count_left(const Route& route) noexcept override;
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
  void know_place(Place place) noexcept { place_ = std::move(place); }
  /// The ranks from `apps` on are dedicated processors: gives each APP its DCP. Collective over the
  /// bootstrap; fails on all ranks or on none. Before any team is created.
  Status dedicate(int apps, Bootstrap& bootstrap) noexcept;
  bool awaits_time(const Team& team) const noexcept override {
    return team.online != nullptr && team.online->awaits_time;
  }
  Status took(Team& team, std::uint64_t ns) noexcept override;
  const std::vector<Learnt>& learnt() const noexcept override { return learnt_; }
  const CastTotals& cast_totals() const noexcept override { return resources_.casts; }
  void keep_learnt() const override;
  Left left(const Team& team, const Call& call) noexcept override;
  const char* algorithm(const Team& team, const Call& call) noexcept override;
  MemoryUse memory() const noexcept override;
  void leave_to_caller() noexcept override { fabric_->leave_to_caller(); }
  std::int32_t awaited() const noexcept override { return engine_.awaited(); }
  Records take_records() noexcept override { return std::exchange(records_, {}); }
  void know_records(const Records& records) noexcept { records_ = records; }

  /// Of what decides which algorithms run and is read from a file: must be equal on all ranks.
  std::uint64_t choices_hash() const noexcept { return dispatcher_.policy().site.hash(); }
  /// Of what is kept from earlier runs, and whether this rank can try the host: while a call is
  /// that's, nothing but the progress thread moves what is under way here, and no deadline counts.
  std::uint64_t kept_hash() const noexcept { return kept_.hash(); }
  bool can_try(const Host& host) const noexcept {
    return settings_.choice != "static" && settings_.progress_thread != Switch::off &&
           settings_.deadline_s == 0 && !host.may_have_gpus;
  }
  /// Ranks share processors.
  bool scarce() const noexcept { return scarce_; }
  /// What the ranks have agreed on. Once, before any team is created.
  void agree_on_trials(bool try_host, bool scarce, bool same_kept) noexcept {
    tries_ = try_host;
    scarce_ = scarce;
    if (!same_kept) kept_ = Rules{};
  }
  /// Likewise. `threads`: some rank calls from several.
  void agree_on_messages(bool threads) noexcept {
    bool near = !scarce_ && !threads;
    for (std::int32_t rank = 0; near && rank < fabric_->size(); ++rank) near = fabric_->maps(rank);
    suits_messages_ = near;
  }
  /// Reads what was kept. Before that.
  void remember(const Host& host);

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
  Status run_chosen(Team& team, const Call& call, const Choice& choice,
                    Engine::Guard& guard) noexcept;
  // The choice on line (measured.cpp).
  bool begin_measuring(Team& team);
  void end_measuring(Team& team) noexcept;
  /// Whether trials decide who runs the call: the same on all members. Operators that are not
  /// commutative show in which order somebody folds.
  static bool is_tried(const Team& team, const Call& call, const Choice& choice) noexcept {
    return team.online != nullptr && choice.open &&
           (call.reduction == nullptr || call.reduction->commutative);
  }
  Known known_of(const Team& team, Call call, std::size_t bytes) const noexcept;
  Online::Cell* cell_of(Team& team, const Call& call) const noexcept {
    return team.online->cell(
        call.coll, class_of(call), call.bytes,
        [this, &team, &call](std::size_t bytes) { return known_of(team, call, bytes); });
  }
  bool look_up(Team& team, const Call& call, Route* out) const noexcept;
  Status run_route(const Route& route, Team& team, const Call& call, Engine::Guard& guard) noexcept;
  Status run_attended(const Route& route, Team& team, const Call& call,
                      Engine::Guard& guard) noexcept;
  Status end_turn(Team& team, std::uint64_t ns, Engine::Guard& guard) noexcept;
  Status sum_over_members(Team& team, double* value, Engine::Guard& guard) noexcept;
  void note(const Team& team, Call call, const Verdict& verdict);
  static const Choice& choice_of(Runner runner, const Team& team, const Call& call) noexcept;
  Runner runner_of(const Team& team, const Call& call, bool* on_trial) const noexcept;
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
  Place place_;
  Records records_;  // as long as nobody has taken them
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
  std::unordered_map<const Team*, std::unique_ptr<Online>> online_;  // of the teams that measure
  static constexpr std::size_t kMostLearnt = 512;  // what comes later is not reported
  std::vector<Learnt> learnt_;
  Rules kept_;                               // what earlier runs have learnt
  std::string host_;                         // Host::version
  bool tries_ = false;                       // the same on all ranks
  bool scarce_ = false;                      // likewise, once they have agreed
  bool suits_messages_ = false;              // likewise
  std::vector<Operation*> orphans_;          // released while active
  Taskless taskless_;                        // requests to dedicated processors
  std::unique_ptr<offload::Client> client_;  // where dedicated processors serve this rank
  std::unique_ptr<offload::Server> server_;  // on a dedicated processor
};

// In the header, since every blocking call passes through it, from two files.
[[gnu::always_inline]] inline Status JobImpl::run_chosen(Team& team, const Call& call,
                                                         const Choice& choice,
                                                         Engine::Guard& guard) noexcept {
  // First: what the others have left to the host is the host's here too, whatever is broken.
  if (!Dispatcher::runs(choice)) [[unlikely]]
    return Dispatcher::not_run(choice);
  if (engine_.broken(team.membership())) [[unlikely]]
    return team.membership().broken;
  Collective collective(team, call);
  Dispatcher::take_place(collective, choice);
  const Tells tells = goes_one_way(call.coll) ? Tells::in_vain : Tells::at_first_look;
  const Status status =
      engine_.run([&] { return Dispatcher::task(collective, choice); }, guard, tells);
  return status.ok() ? status : tell_failure(team, status);
}

}  // namespace tutti
