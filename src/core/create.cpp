// Job::create: settings, fabric, decorators, engine, and the agreement that all ranks have them.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "core/job.hpp"
#include "core/multicast.hpp"
#include "core/network.hpp"
#include "fabric/agree.hpp"
#include "fabric/nodes/nodes.hpp"
#include "fabric/shm/shm.hpp"
#include "fabric/wrap/decorate.hpp"

namespace tutti {
namespace {

class HostBootstrap final : public Bootstrap {
 public:
  explicit HostBootstrap(const Host& host) noexcept : host_(host) {}
  int rank() const noexcept override { return host_.rank; }
  int size() const noexcept override { return host_.size; }
  Status allgather(const void* in, void* out, std::size_t bytes) noexcept override {
    return host_.allgather(host_.self, in, out, bytes);
  }

 private:
  const Host& host_;
};

/// Where there are several nodes: a network between them. Without one, tutti serves only what stays
/// on a node, unless TUTTI_NET=on asks for it. The same on all ranks. `*place`: what came of it.
Status connect_nodes(Bootstrap& bootstrap, const Settings& settings,
                     std::unique_ptr<shm::ShmFabric> shm, std::unique_ptr<Fabric>* out,
                     Place* place) {
  const bool one_node = shm->neighbours().size() == static_cast<std::size_t>(bootstrap.size());
  if (settings.net == Switch::off || one_node) {
    place->nodes = one_node ? 1 : 0;
    *out = std::move(shm);
    return Status::success();
  }
  std::string message;
  std::unique_ptr<Network> network;
  // Also without one the others are met: they would wait, or use theirs.
  static_cast<void>(open_network(settings, &network, &message));
  std::unique_ptr<nodes::NodesFabric> nodes;
  const Status status =
      nodes::NodesFabric::connect(bootstrap, settings, &shm, std::move(network), &nodes, &message);
  if (status.ok()) {
    const NetworkAddress& own = nodes->network().address();
    *place = {nodes->nodes(), nodes->network().name(), {own.data, own.data + own.bytes}};
    const Status multicast = connect_multicast(bootstrap, settings, *nodes, &message);
    if (!multicast.ok() && settings.multicast == Switch::on) {
      log(LogLevel::error, "TUTTI_MULTICAST=on, but there is no multicast: %s", message.c_str());
      return multicast;
    }
    if (bootstrap.rank() == 0) {
      log(LogLevel::info, "%s%s",
          multicast.ok() ? "" : "no multicast between the nodes, broadcasts use trees: ",
          message.c_str());
    }
    *out = std::move(nodes);
    return status;
  }
  if (!message.empty()) {
    log(settings.net == Switch::on ? LogLevel::error : LogLevel::warn,
        "no network between the nodes: %s%s", message.c_str(),
        settings.net == Switch::on ? "" : "; collectives across nodes stay with the MPI");
  }
  if (settings.net == Switch::on) return status;
  *out = std::move(shm);
  return Status::success();
}

/// What the ranks of one machine do without, and what would give it back.
void say_losses(const shm::Losses& losses, const Settings& settings) {
  if (losses.separated >= 0 && std::getenv("TUTTI_RUN_LAB") == nullptr) {
    log(LogLevel::warn,
        "ranks %d and %d run on one machine but share no memory, because they are in network "
        "namespaces of their own; they use the network (containers: give them the host's)",
        losses.separated, losses.from);
  }
  if (losses.without_cma < 0 || settings.cma != Switch::automatic) return;
  const char* why = losses.processes ? "they are in pid namespaces of their own"
                    : losses.users   ? "they are in user namespaces of their own"
                                     : "ptrace scope or seccomp";
  log(LogLevel::warn,
      "the kernel refuses cross-memory attach between ranks (%s): large messages are copied "
      "through shared memory instead",
      why);
}

/// Refuses `mpi` in TUTTI_ALG where the program has no MPI.
Status check_forced(const Forced& forced, const Host& host) {
  for (int i = 0; i < kColls && !host.has_collectives; ++i) {
    const Coll coll = static_cast<Coll>(i);
    const Choice* const wanted = forced.of(coll);
    if (wanted == nullptr || !wanted->algorithm->left_to_host()) continue;
    log(LogLevel::error,
        "TUTTI_ALG: %s=%s: this is not an MPI program; there is no MPI that could run its %s",
        name(coll), wanted->algorithm->name, name(coll));
    return Status::error(Code::invalid_argument, "TUTTI_ALG names an MPI, and there is none");
  }
  return Status::success();
}

Status create_here(const Host& host, bool threads, Bootstrap& bootstrap,
                   std::unique_ptr<JobImpl>* out) {
  Settings settings;
  std::string message;
  const Status loaded = load_settings(&settings, &message);
  log_setup(settings.log, host.rank);
  if (!loaded.ok()) log(LogLevel::error, "%s", message.c_str());
  std::unique_ptr<shm::ShmFabric> fabric;
  // The others wait in its first exchange: it is entered in any case, and fails for all.
  TUTTI_TRY(shm::ShmFabric::connect(bootstrap, settings, &fabric, loaded));
  if (host.rank == 0) say_losses(fabric->losses(), settings);
  const int machine_ranks = fabric->machine_ranks();
  const int cores = fabric->node_cores();
  const shm::ShmFabric& node = *fabric;  // which the others hold from now on
  std::unique_ptr<Fabric> whole;
  Place place;
  TUTTI_TRY(connect_nodes(bootstrap, settings, std::move(fabric), &whole, &place));
  std::unique_ptr<Fabric> decorated = wrap::decorate(std::move(whole), settings, &message);
  if (!decorated) {
    log(LogLevel::error, "%s", message.c_str());
    return Status::error(Code::invalid_argument, "a setting is wrong");
  }
  std::unique_ptr<JobImpl> job;
  TUTTI_TRY(JobImpl::create(
      settings, std::move(decorated), machine_ranks, cores,
      HostPump{host.self, host.pump, host.host_pending, host.host_serves, host.waits}, threads,
      &job));
  TUTTI_TRY(check_forced(job->dispatcher().policy().forced, host));
  job->remember(host);
  job->know_place(std::move(place));
  job->know_records({node.map_records(), shm::kRecordBytes,
                     static_cast<std::int32_t>(node.neighbours().size()), node.local_rank(),
                     settings.recorder != Recorder::off && node.back_record(),
                     shm::kRecordHeadBytes, node.descriptor()});
  *out = std::move(job);
  return Status::success();
}

}  // namespace

Status Job::create(const Host& host, bool threads, std::unique_ptr<Job>* out) {
  HostBootstrap bootstrap(host);
  std::unique_ptr<JobImpl> job;
  const Status mine = create_here(host, threads, bootstrap, &job);
  // Nobody may use tutti unless all can: the last word on what each rank has reached, and on
  // whether all would choose the same algorithms.
  struct Reached {
    std::uint64_t choices, kept;
    std::int32_t pid;
    Code code;
    bool tries, scarce, threads;
  };
  std::vector<Reached> all(static_cast<std::size_t>(host.size));
  const Reached reached{
      mine.ok() ? job->choices_hash() : 0, mine.ok() ? job->kept_hash() : 0, getpid(), mine.code,
      mine.ok() && job->can_try(host),     mine.ok() && job->scarce(),       threads};
  TUTTI_TRY(bootstrap.allgather(&reached, all.data(), sizeof reached));
  std::vector<Code> codes;
  for (const Reached& other : all) codes.push_back(other.code);
  TUTTI_TRY(agreed(codes, mine));
  for (const Reached& other : all) {
    if (other.choices == all.front().choices) continue;
    if (host.rank == 0)
      log(LogLevel::error, "TUTTI_CHOICES: the ranks have read different rules; give all one file");
    return Status::error(Code::invalid_argument, "the ranks have different TUTTI_CHOICES");
  }
  const auto same = [&all](const Reached& other) { return other.kept == all.front().kept; };
  const bool same_kept = std::ranges::all_of(all, same);
  const bool try_host = std::ranges::all_of(all, &Reached::tries);
  // Who does not try has read nothing.
  if (try_host && !same_kept && host.rank == 0) {
    log(LogLevel::warn,
        "TUTTI_CHOICE: the ranks have read different files; this run starts without them (is the "
        "file on a disk that all nodes share?)");
  }
  job->agree_on_trials(try_host, std::ranges::any_of(all, &Reached::scarce), same_kept);
  job->agree_on_messages(std::ranges::any_of(all, &Reached::threads));
  std::vector<std::int32_t> pids;
  for (const Reached& other : all) pids.push_back(other.pid);
  job->know_processes(std::move(pids));
  if (host.apps != 0 && host.apps < host.size) TUTTI_TRY(job->dedicate(host.apps, bootstrap));
  *out = std::move(job);
  return Status::success();
}

}  // namespace tutti
