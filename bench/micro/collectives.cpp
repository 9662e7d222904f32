// Collectives of the core without any MPI: ranks are threads of this process, one per processor.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "base/reduction.hpp"
#include "core/core.hpp"
#include "support/local_jobs.hpp"

namespace {

using tutti::Call;
using tutti::Coll;

/// Every rank runs the same number of calls; rank 0's time counts.
void collective(benchmark::State& state, Coll coll, int ranks) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  tutti::Reduction reduction;
  if (!tutti::find_reduction(tutti::Op::sum, tutti::Type::i32, &reduction)) {
    state.SkipWithError("no kernel");
    return;
  }
  const int calls = bytes <= 4096 ? 20000 : 200;
  for (auto _ : state) {
    double seconds = 0;
    bool failed = false;
    tutti::test::run_threads(ranks, tutti::Settings{}, [&](tutti::test::Rank& r) {
      std::vector<std::byte> send(std::max<std::size_t>(bytes, 1)),
          recv(send.size() * static_cast<std::size_t>(ranks));
      const Call call{.coll = coll,
                      .send = send.data(),
                      .recv = recv.data(),
                      .bytes = bytes,
                      .reduction = &reduction};
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) {
        if (!r.job.run(r.team, call).ok() && r.rank == 0) failed = true;
      }
      if (r.rank == 0) {
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    });
    if (failed) state.SkipWithError("a collective failed");
    state.SetIterationTime(seconds / calls);
  }
}

const bool kRegistered = [] {
  const int ranks = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 8U));
  for (const Coll coll : {Coll::barrier, Coll::bcast, Coll::allreduce, Coll::allgather}) {
    const std::string name = std::string(tutti::name(coll)) + "/threads:" + std::to_string(ranks);
    auto* timed = benchmark::RegisterBenchmark(name.c_str(), collective, coll, ranks);
    timed->UseManualTime()->Iterations(5)->Unit(benchmark::kMicrosecond);
    if (coll == Coll::barrier) {
      timed->Arg(0);
    } else {
      timed->Arg(8)->Arg(1024)->Arg(65536)->Arg(1 << 20);
    }
  }
  return true;
}();

}  // namespace
