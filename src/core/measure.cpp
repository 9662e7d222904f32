#include "core/measure.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "coll/parcels.hpp"
#include "core/job.hpp"
#include "fabric/shm/shm.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kTeamId[2] = {0x74756e65, 1};

struct Measured {
  Choice choice;
  std::size_t bytes;
  int ranks;
  int calls;
};

Status parse(const std::string& algorithm, Choice* out, std::string* message) {
  Forced forced;
  TUTTI_TRY(Forced::parse(algorithm, &forced, message));
  for (int coll = 0; coll < kColls; ++coll) {
    if (const Choice* choice = forced.of(static_cast<Coll>(coll))) {
      *out = *choice;
      return Status::success();
    }
  }
  *message = "no algorithm is named";
  return Status::error(Code::invalid_argument, "no algorithm");
}

/// A rank's buffers and call: sums of 32-bit integers, data rewritten between calls by what is
/// received.
struct Buffers {
  Buffers(const Measured& c, int rank, const Reduction& reduction) {
    const auto ranks = static_cast<std::size_t>(c.ranks);
    send.resize(std::max<std::size_t>(c.bytes * ranks, 1));
    recv.resize(send.size());
    call.coll = c.choice.algorithm->coll;
    call.bytes = call.coll == Coll::barrier ? 0 : c.bytes;
    call.send = send.data();
    call.recv = recv.data();
    call.reduction = &reduction;
    if (has_parcels(call.coll)) {
      parcels.emplace_back(
          Parcels::even(call.coll, 0, rank, c.ranks, send.data(), recv.data(), c.bytes));
      call.parcels = &parcels.front();
      call.bytes = 0;
    }
    if (call.coll != Coll::allgatherv && call.coll != Coll::reduce_scatter) return;
    const std::size_t element = call.coll == Coll::reduce_scatter ? reduction.element_bytes : 1;
    counts.assign(ranks, c.bytes / element / ranks * element);
    for (std::size_t i = 0; i < ranks; ++i) displs.push_back(i * counts[0]);
    call.bytes = counts[0] * ranks;
    call.counts = counts.data();
    call.displs = displs.data();
  }
  std::vector<std::byte> send, recv;
  std::vector<std::size_t> counts, displs;
  std::vector<Parcels> parcels;  // one, where the collective has them
  Call call;
};

Status run_rank(std::unique_ptr<Fabric> fabric, const Settings& settings, int cores,
                const Measured& c, std::barrier<>& together, double* us) {
  const int rank = fabric->rank();
  std::unique_ptr<JobImpl> job;
  std::vector<std::int32_t> members(static_cast<std::size_t>(c.ranks));
  std::iota(members.begin(), members.end(), 0);
  Team* team = nullptr;
  Status status =
      JobImpl::create(settings, std::move(fabric), c.ranks, cores, HostPump{}, false, &job);
  if (status.ok())
    status = job->create_team({{kTeamId[0], kTeamId[1]}, rank, c.ranks, members.data()}, &team);
  Reduction reduction;
  find_reduction(Op::sum, Type::i32, &reduction);
  Buffers buffers(c, rank, reduction);
  // Whether it can run is the same on all ranks, so nobody is left waiting in the barrier.
  if (status.ok() && job->algorithm(*team, buffers.call) != std::string(c.choice.algorithm->name))
    status = Status::error(Code::unsupported, "it cannot run with so many bytes or ranks");
  together.arrive_and_wait();
  if (!status.ok()) return status;
  for (int i = 0; status.ok() && i < c.calls / 10 + 1; ++i) status = job->run(*team, buffers.call);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; status.ok() && i < c.calls; ++i) {
    buffers.send[0] = static_cast<std::byte>(i);
    status = job->run(*team, buffers.call);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  *us = took.count() / c.calls;
  static_cast<void>(job->run(*team, Call{}));  // nobody leaves while others may still need it
  together.arrive_and_wait();
  return status;
}

}  // namespace

Status measure_collective(const std::string& algorithm, std::size_t bytes, int ranks, int calls,
                          double* us, std::string* message) {
  Measured c{{}, bytes, ranks, calls};
  TUTTI_TRY(parse(algorithm, &c.choice, message));
  Settings settings;
  settings.algorithm = algorithm;
  log_setup(LogLevel::quiet, 0);  // that it cannot run somewhere is this function's to say
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  Status status = shm::ShmFabric::create_threads(ranks, settings, &fabrics);
  std::vector<Status> outcomes(static_cast<std::size_t>(ranks));
  std::vector<double> times(static_cast<std::size_t>(ranks));
  if (status.ok()) {
    std::barrier together(ranks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const int cores = fabrics[rank]->node_cores();
        outcomes[rank] =
            run_rank(std::move(fabrics[rank]), settings, cores, c, together, &times[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  log_setup(LogLevel::warn, 0);
  for (const Status& outcome : outcomes) {
    if (status.ok()) status = outcome;
  }
  if (!status.ok()) {
    *message = algorithm + ": " + (status.detail != nullptr ? status.detail : name(status.code));
    return status;
  }
  *us = *std::max_element(times.begin(), times.end());
  return Status::success();
}

}  // namespace tutti
