#include "offload/dedicated_jobs.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/cores.hpp"
#include "fabric/nodes/nodes.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/shm/shm.hpp"
#include "fabric/wrap/decorate.hpp"

namespace tutti::test {
namespace {

constexpr std::uint64_t kWorldId[2] = {0x7e57, 2};

/// One rank, APP or DCP, from its fabric on.
void run_rank(int apps, const Settings& settings, std::unique_ptr<Fabric> fabric,
              Bootstrap& bootstrap, const Body& body) {
  const int rank = bootstrap.rank();
  std::string message;
  std::unique_ptr<Fabric> decorated = wrap::decorate(std::move(fabric), settings, &message);
  if (!decorated) throw std::runtime_error(message);
  std::unique_ptr<JobImpl> job;
  Status status = JobImpl::create(settings, std::move(decorated), bootstrap.size(),
                                  available_cores(), HostPump{}, false, &job);
  if (!status.ok()) throw std::runtime_error(status.detail);
  status = job->dedicate(apps, bootstrap);
  if (!status.ok()) throw std::runtime_error(status.detail);
  if (rank >= apps) {
    job->serve();
    return;
  }
  std::vector<std::int32_t> members(static_cast<std::size_t>(apps));
  std::iota(members.begin(), members.end(), 0);
  Team* team = nullptr;
  status =
      job->create_team(TeamSpec{{kWorldId[0], kWorldId[1]}, rank, apps, members.data()}, &team);
  if (!status.ok()) throw std::runtime_error(status.detail);
  Rank view{rank, apps, *job, *team};
  body(view);
  static_cast<void>(job->run(*team, Call{}));
}

}  // namespace

void run_dedicated(int apps, int processors, const Settings& settings, const Body& body,
                   const std::vector<int>& node_of) {
  const int ranks = apps + processors;
  auto bootstraps = thread_bootstraps(ranks);
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  if (node_of.empty()) {
    const Status status = shm::ShmFabric::create_threads(ranks, settings, &fabrics);
    if (!status.ok()) throw std::runtime_error(status.detail);
  }
  std::barrier all_done(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      if (node_of.empty()) {
        run_rank(apps, settings, std::move(fabrics[i]), *bootstraps[i], body);
      } else {
        Settings mine = settings;
        mine.node = std::to_string(node_of[i]);
        mine.libfabric = test_libfabric();
        std::unique_ptr<shm::ShmFabric> shm;
        Status status = shm::ShmFabric::connect(*bootstraps[i], mine, &shm);
        if (!status.ok()) throw std::runtime_error(status.detail);
        std::string message;
        std::unique_ptr<Network> network;
        std::unique_ptr<nodes::NodesFabric> fabric;
        static_cast<void>(ofi::OfiNetwork::open(mine, &network, &message));
        status = nodes::NodesFabric::connect(*bootstraps[i], mine, &shm, std::move(network),
                                             &fabric, &message);
        if (!status.ok()) throw std::runtime_error(message);
        run_rank(apps, mine, std::move(fabric), *bootstraps[i], body);
      }
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> run_dedicated_processes(int apps, int processors, const Settings& settings,
                                         const Body& body) {
  return fork_ranks(apps + processors, [&](Bootstrap& bootstrap) {
    std::unique_ptr<shm::ShmFabric> fabric;
    const Status status = connect_shm(bootstrap, settings, &fabric);
    if (!status.ok()) return 2;
    run_rank(apps, settings, std::move(fabric), bootstrap, body);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
}

}  // namespace tutti::test
