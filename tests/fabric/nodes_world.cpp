#include "fabric/nodes_world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <barrier>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/multicast.hpp"
#include "fabric/nodes/nodes.hpp"
#include "fabric/run_body.hpp"

namespace tutti::test {
namespace {

Status connect(Bootstrap& bootstrap, Settings settings, int ranks_per_node, const OpenNetwork& open,
               std::unique_ptr<nodes::NodesFabric>* out, int* cores) {
  settings.node = std::to_string(bootstrap.rank() / ranks_per_node);
  settings.libfabric = test_libfabric();
  settings.net_timeout_s = 3;
  std::unique_ptr<shm::ShmFabric> shm;
  TUTTI_TRY(shm::ShmFabric::connect(bootstrap, settings, &shm));
  *cores = shm->node_cores();
  std::unique_ptr<Network> network;
  std::string message;
  Status status = open(settings, bootstrap.rank(), &network, &message);
  const Status connected =
      nodes::NodesFabric::connect(bootstrap, settings, &shm, std::move(network), out, &message);
  if (status.ok()) status = connected;
  if (status.ok() && settings.multicast == Switch::on)
    status = connect_multicast(bootstrap, settings, **out, &message);
  EXPECT_TRUE(status.ok()) << message;
  return status;
}

class NodesThreads final : public World {
 public:
  NodesThreads(const Settings& settings, int ranks_per_node, Wrap wrap, OpenNetwork open)
      : settings_(settings),
        ranks_per_node_(ranks_per_node),
        wrap_(std::move(wrap)),
        open_(std::move(open)) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    auto bootstraps = thread_bootstraps(ranks);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
    std::barrier meeting(ranks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { outcomes[rank] = run_rank(*bootstraps[rank], body, meeting); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

 private:
  Outcome run_rank(Bootstrap& bootstrap, const NodeBody& body, std::barrier<>& meeting) {
    std::unique_ptr<nodes::NodesFabric> connected;
    int cores = 1;
    const Status status = connect(bootstrap, settings_, ranks_per_node_, open_, &connected, &cores);
    const auto meet = [&meeting] { meeting.arrive_and_wait(); };
    if (!status.ok()) {
      meet();
      meet();
      return {false, status};
    }
    nodes::NodesFabric* const inner = connected.get();
    std::unique_ptr<Fabric> fabric = std::move(connected);
    if (wrap_) fabric = wrap_(std::move(fabric));
    bool died = false;
    const auto die = [&died, inner] {
      died = true;
      inner->die();
    };
    const Status ended = run_body(*fabric, settings_, cores, die, body, meet, meet);
    return {died, ended};
  }

  Settings settings_;
  int ranks_per_node_;
  Wrap wrap_;
  OpenNetwork open_;
};

class NodesProcesses final : public World {
 public:
  NodesProcesses(const Settings& settings, int ranks_per_node, Wrap wrap, OpenNetwork open)
      : settings_(settings),
        ranks_per_node_(ranks_per_node),
        wrap_(std::move(wrap)),
        open_(std::move(open)) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    auto* shared =
        static_cast<Outcome*>(mmap(nullptr, sizeof(Outcome) * kMostRanks, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED) return {};
    for (int rank = 0; rank < kMostRanks; ++rank) new (shared + rank) Outcome{};
    const std::vector<int> statuses = fork_ranks(ranks, [&](Bootstrap& bootstrap) {
      return run_here(bootstrap, body, shared[bootstrap.rank()]);
    });
    std::vector<Outcome> outcomes(shared, shared + ranks);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      outcomes[rank].status.detail = nullptr;  // a pointer of another process
      outcomes[rank].died = WIFSIGNALED(statuses[rank]) && WTERMSIG(statuses[rank]) == SIGKILL;
      EXPECT_TRUE(outcomes[rank].died ||
                  (WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 0))
          << "rank " << rank << " ended with wait status " << statuses[rank];
    }
    munmap(shared, sizeof(Outcome) * kMostRanks);
    return outcomes;
  }

 private:
  int run_here(Bootstrap& bootstrap, const NodeBody& body, Outcome& outcome) {
    std::unique_ptr<nodes::NodesFabric> connected;
    int cores = 1;
    outcome.status = connect(bootstrap, settings_, ranks_per_node_, open_, &connected, &cores);
    if (!outcome.status.ok()) return 2;
    std::unique_ptr<Fabric> fabric = std::move(connected);
    if (wrap_) fabric = wrap_(std::move(fabric));
    std::uint8_t byte = 0;
    std::uint8_t all[kMostRanks];
    const auto ready = [&] { static_cast<void>(bootstrap.allgather(&byte, all, 1)); };
    outcome.status = run_body(
        *fabric, settings_, cores, [] { raise(SIGKILL); }, body, ready, [] {});
    return ::testing::Test::HasFailure() ? 1 : 0;
  }

  Settings settings_;
  int ranks_per_node_;
  Wrap wrap_;
  OpenNetwork open_;
};

}  // namespace

std::unique_ptr<World> make_nodes_world(const Settings& settings, int ranks_per_node, bool threads,
                                        Wrap wrap, OpenNetwork open) {
  if (threads)
    return std::make_unique<NodesThreads>(settings, ranks_per_node, std::move(wrap),
                                          std::move(open));
  return std::make_unique<NodesProcesses>(settings, ranks_per_node, std::move(wrap),
                                          std::move(open));
}

}  // namespace tutti::test
