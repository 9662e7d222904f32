#include "support/local_jobs.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/cores.hpp"
#include "core/multicast.hpp"
#include "fabric/agree.hpp"
#include "fabric/nodes/nodes.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/wrap/decorate.hpp"

namespace tutti::test {
namespace {

constexpr std::uint64_t kWorldId[2] = {0x7e57, 1};

std::vector<std::int32_t> iota(int size) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

/// Exchanges through memory that all forked ranks inherit.
class ForkBootstrap final : public Bootstrap {
 public:
  struct Shared {
    pthread_barrier_t barrier;
    std::byte data[1 << 20];
  };
  ForkBootstrap(int rank, int size, Shared& shared) : rank_(rank), size_(size), shared_(shared) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Status allgather(const void* in, void* out, std::size_t bytes) noexcept override {
    if (bytes * static_cast<std::size_t>(size_) > sizeof shared_.data)
      return Status::error(Code::truncated);
    std::memcpy(shared_.data + bytes * static_cast<std::size_t>(rank_), in, bytes);
    pthread_barrier_wait(&shared_.barrier);
    std::memcpy(out, shared_.data, bytes * static_cast<std::size_t>(size_));
    pthread_barrier_wait(&shared_.barrier);
    return Status::success();
  }

 private:
  int rank_;
  int size_;
  Shared& shared_;
};

class ThreadBootstrap final : public Bootstrap {
 public:
  struct Shared {
    explicit Shared(int ranks) : barrier(ranks) {}
    std::barrier<> barrier;
    std::vector<std::byte> data;
    std::mutex mutex;
  };
  ThreadBootstrap(int rank, int size, std::shared_ptr<Shared> shared)
      : rank_(rank), size_(size), shared_(std::move(shared)) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Status allgather(const void* in, void* out, std::size_t bytes) noexcept override {
    const std::size_t total = bytes * static_cast<std::size_t>(size_);
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->data.size() < total) shared_->data.resize(total);
      std::memcpy(shared_->data.data() + bytes * static_cast<std::size_t>(rank_), in, bytes);
    }
    shared_->barrier.arrive_and_wait();
    std::memcpy(out, shared_->data.data(), total);
    shared_->barrier.arrive_and_wait();
    return Status::success();
  }

 private:
  int rank_;
  int size_;
  std::shared_ptr<Shared> shared_;
};

void run_rank(int ranks, const Settings& settings, std::unique_ptr<Fabric> fabric, int cores,
              bool threads, const Body& body, const HostPump& pump = {}) {
  const int rank = fabric->rank();
  std::string message;
  std::unique_ptr<Fabric> decorated = wrap::decorate(std::move(fabric), settings, &message);
  if (!decorated) throw std::runtime_error(message);
  std::unique_ptr<JobImpl> job;
  Status status =
      JobImpl::create(settings, std::move(decorated), ranks, cores, pump, threads, &job);
  if (!status.ok()) throw std::runtime_error(status.detail);
  const auto members = iota(ranks);
  Team* team = nullptr;
  status =
      job->create_team(TeamSpec{{kWorldId[0], kWorldId[1]}, rank, ranks, members.data()}, &team);
  if (!status.ok()) throw std::runtime_error(status.detail);
  Rank view{rank, ranks, *job, *team};
  body(view);
  // As MPI_Finalize does: nobody leaves while others may still need it.
  static_cast<void>(job->run(*team, Call{}));
}

}  // namespace

void run_threads(int ranks, const Settings& settings, const Body& body, bool multiple,
                 const HostPump& pump) {
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  const Status status = shm::ShmFabric::create_threads(ranks, settings, &fabrics);
  if (!status.ok()) throw std::runtime_error(status.detail);
  std::barrier all_done(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto& fabric = fabrics[static_cast<std::size_t>(rank)];
      const int cores = fabric->node_cores();
      run_rank(ranks, settings, std::move(fabric), cores, multiple, body, pump);
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Status open_ofi(const Settings& settings, int, std::unique_ptr<Network>* out,
                std::string* message) {
  return ofi::OfiNetwork::open(settings, out, message);
}

void run_nodes(const std::vector<int>& node_of, const Settings& settings, const Body& body,
               const OpenNetwork& open) {
  const auto ranks = static_cast<int>(node_of.size());
  auto bootstraps = thread_bootstraps(ranks);
  std::barrier all_done(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      Settings mine = settings;
      mine.node = std::to_string(node_of[i]);
      mine.libfabric = test_libfabric();
      std::unique_ptr<shm::ShmFabric> shm;
      Status status = shm::ShmFabric::connect(*bootstraps[i], mine, &shm);
      if (!status.ok()) throw std::runtime_error(status.detail);
      const int cores = shm->node_cores();
      std::string message;
      std::unique_ptr<Network> network;
      std::unique_ptr<nodes::NodesFabric> fabric;
      static_cast<void>(open(mine, rank, &network, &message));
      status = nodes::NodesFabric::connect(*bootstraps[i], mine, &shm, std::move(network), &fabric,
                                           &message);
      if (status.ok() && mine.multicast == Switch::on)
        status = connect_multicast(*bootstraps[i], mine, *fabric, &message);
      if (!status.ok()) throw std::runtime_error(message);
      run_rank(ranks, mine, std::move(fabric), cores, false, body);
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string test_libfabric() {
  const char* path = std::getenv("TEST_LIBFABRIC");
  return path != nullptr ? path : "";
}

std::vector<std::unique_ptr<Bootstrap>> thread_bootstraps(int ranks) {
  const auto shared = std::make_shared<ThreadBootstrap::Shared>(ranks);
  std::vector<std::unique_ptr<Bootstrap>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<ThreadBootstrap>(rank, ranks, shared));
  return all;
}

Status connect_shm(Bootstrap& bootstrap, const Settings& settings,
                   std::unique_ptr<shm::ShmFabric>* out) {
  return agree(bootstrap, shm::ShmFabric::connect(bootstrap, settings, out));
}

std::vector<int> fork_ranks(int ranks, const std::function<int(Bootstrap&)>& body) {
  auto* shared = static_cast<ForkBootstrap::Shared*>(mmap(nullptr, sizeof(ForkBootstrap::Shared),
                                                          PROT_READ | PROT_WRITE,
                                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) throw std::runtime_error("mmap");
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(ranks));
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      ForkBootstrap bootstrap(rank, ranks, *shared);
      const int code = body(bootstrap);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
  }
  // In the order in which they end: a launcher does not leave the dead lying around either.
  std::vector<int> statuses(children.size(), -1);
  for (std::size_t left = children.size(); left != 0;) {
    int status = 0;
    const auto place = std::find(children.begin(), children.end(), waitpid(-1, &status, 0));
    if (place == children.end()) continue;
    statuses[static_cast<std::size_t>(place - children.begin())] = status;
    --left;
  }
  munmap(shared, sizeof *shared);
  return statuses;
}

std::vector<int> run_processes(int ranks, const Settings& settings, const Body& body,
                               bool multiple) {
  return fork_ranks(ranks, [&](Bootstrap& bootstrap) {
    std::unique_ptr<shm::ShmFabric> fabric;
    const Status status = connect_shm(bootstrap, settings, &fabric);
    if (!status.ok()) {
      std::fprintf(stderr, "rank %d: %s: %s\n", bootstrap.rank(), name(status.code), status.detail);
      return 2;
    }
    const int cores = fabric->node_cores();
    run_rank(ranks, settings, std::move(fabric), cores, multiple, body);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
}

bool all_exited(const std::vector<int>& statuses) {
  for (const int status : statuses) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return false;
  }
  return true;
}

}  // namespace tutti::test
