#include "fabric/shm_world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "fabric/run_body.hpp"
#include "fabric/shm/shm.hpp"
#include "support/local_jobs.hpp"

namespace tutti::test {
namespace {

class ThreadWorld final : public World {
 public:
  ThreadWorld(const Settings& settings, Wrap wrap) : settings_(settings), wrap_(std::move(wrap)) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
    const Status created = shm::ShmFabric::create_threads(ranks, settings_, &fabrics);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks), Outcome{false, created});
    if (!created.ok()) return outcomes;
    std::barrier meeting(ranks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < fabrics.size(); ++rank) {
      threads.emplace_back([&, rank] {
        shm::ShmFabric* const inner = fabrics[rank].get();
        const int cores = inner->node_cores();
        std::unique_ptr<Fabric> fabric = std::move(fabrics[rank]);
        if (wrap_) fabric = wrap_(std::move(fabric));
        bool died = false;
        const auto die = [&died, inner] {
          died = true;
          inner->die();
        };
        const auto meet = [&meeting] { meeting.arrive_and_wait(); };
        const Status status = run_body(*fabric, settings_, cores, die, body, meet, meet);
        outcomes[rank] = Outcome{died, status};
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

 private:
  Settings settings_;
  Wrap wrap_;
};

class ProcessWorld final : public World {
 public:
  ProcessWorld(const Settings& settings, Wrap wrap) : settings_(settings), wrap_(std::move(wrap)) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    auto* shared = static_cast<Shared*>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (shared == MAP_FAILED) return {};
    new (shared) Shared{};
    const std::vector<int> statuses = fork_ranks(ranks, [&](Bootstrap& bootstrap) {
      return run_here(bootstrap, body, shared->outcomes[bootstrap.rank()]);
    });
    std::vector<Outcome> outcomes(shared->outcomes, shared->outcomes + ranks);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      Outcome& outcome = outcomes[rank];
      outcome.status.detail = nullptr;  // a pointer of another process
      outcome.died = WIFSIGNALED(statuses[rank]) && WTERMSIG(statuses[rank]) == SIGKILL;
      EXPECT_TRUE(outcome.died || (WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 0))
          << "rank " << rank << " ended with wait status " << statuses[rank];
    }
    munmap(shared, sizeof *shared);
    return outcomes;
  }

 private:
  struct Shared {
    Outcome outcomes[kMostRanks];
  };

  int run_here(Bootstrap& bootstrap, const NodeBody& body, Outcome& outcome) {
    std::unique_ptr<shm::ShmFabric> connected;
    outcome.status = connect_shm(bootstrap, settings_, &connected);
    if (!outcome.status.ok()) return 2;
    const int cores = connected->node_cores();
    std::unique_ptr<Fabric> fabric = std::move(connected);
    if (wrap_) fabric = wrap_(std::move(fabric));
    std::uint8_t byte = 0;
    std::uint8_t all[kMostRanks];
    const auto ready = [&] { static_cast<void>(bootstrap.allgather(&byte, all, 1)); };
    // Nobody waits for the others at the end: some may be dead.
    outcome.status = run_body(
        *fabric, settings_, cores, [] { raise(SIGKILL); }, body, ready, [] {});
    return ::testing::Test::HasFailure() ? 1 : 0;
  }

  Settings settings_;
  Wrap wrap_;
};

}  // namespace

std::unique_ptr<World> make_thread_world(const Settings& settings, Wrap wrap) {
  return std::make_unique<ThreadWorld>(settings, std::move(wrap));
}

std::unique_ptr<World> make_process_world(const Settings& settings, Wrap wrap) {
  return std::make_unique<ProcessWorld>(settings, std::move(wrap));
}

}  // namespace tutti::test
