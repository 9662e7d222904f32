// Jobs for tests and micro-benchmarks, without any MPI: ranks as threads of this process, or as
// forked processes that exchange their bootstrap data through an anonymous shared mapping.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "core/job.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/network.hpp"
#include "fabric/shm/shm.hpp"

namespace tutti::test {

/// One rank's view.
struct Rank {
  int rank;
  int size;
  Job& job;
  Team& team;  // of all ranks
};

using Body = std::function<void(Rank&)>;

/// Runs `body` on `ranks` threads, each with a job of its own over the shm fabric. Returns when all
/// have finished; throws std::runtime_error when a job or team cannot be created. `multiple`:
/// bodies have threads of their own that use the job. `pump`: of every rank's host.
void run_threads(int ranks, const Settings& settings, const Body& body, bool multiple = false,
                 const HostPump& pump = {});

/// Runs `body` in `ranks` forked processes. Returns the wait statuses. A rank whose body returns
/// exits with 0, or with 1 when a gtest expectation failed in it. `multiple`: as for threads.
std::vector<int> run_processes(int ranks, const Settings& settings, const Body& body,
                               bool multiple = false);

/// Opens the network of a rank.
using OpenNetwork = std::function<Status(const Settings&, int rank, std::unique_ptr<Network>*,
                                         std::string* message)>;
/// libfabric's.
Status open_ofi(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                std::string* message);

/// Runs `body` on a thread per rank, rank r on node `node_of[r]`: ranks of different nodes
/// communicate over that network (libfabric on the loopback), those of one node through shared
/// memory. With settings.multicast `on` also by the network's multicast, or by IP multicast on
/// settings.net_interface.
void run_nodes(const std::vector<int>& node_of, const Settings& settings, const Body& body,
               const OpenNetwork& open = open_ofi);

/// The libfabric that tests open: TEST_LIBFABRIC, or the system's where that is not set.
std::string test_libfabric();

/// The exchange of ranks that are threads of this process: one for each, in rank order.
std::vector<std::unique_ptr<Bootstrap>> thread_bootstraps(int ranks);

/// ShmFabric::connect(), after which all ranks have connected, or none. Collective.
Status connect_shm(Bootstrap& bootstrap, const Settings& settings,
                   std::unique_ptr<shm::ShmFabric>* out);

/// Forks `ranks` processes that exit with what `body` returns; gives their wait statuses.
std::vector<int> fork_ranks(int ranks, const std::function<int(Bootstrap&)>& body);

/// True when all statuses are those of processes that exited with 0.
bool all_exited(const std::vector<int>& statuses);

}  // namespace tutti::test
