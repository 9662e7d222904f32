// Noise, skew and interrupts: exact where a formula says so, repeated by the seed, and different
// without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::sim {
namespace {

struct Outcome {
  Time duration = 0;
  std::uint64_t interrupts = 0;
};

Outcome simulate(const JobSpec& spec, const std::string& algorithm, int repeat,
                 const Program& program) {
  std::unique_ptr<SimJob> job;
  std::string message;
  EXPECT_TRUE(SimJob::create(spec, &job, &message).ok()) << message;
  Forced forced;
  EXPECT_TRUE(Forced::parse(algorithm, &forced, &message).ok()) << message;
  Reduction reduction;
  find_reduction(Op::sum, Type::i32, &reduction);
  static std::byte send, recv;
  Call call;
  call.coll = forced.of(Coll::allreduce) != nullptr ? Coll::allreduce : Coll::bcast;
  call.send = &send;
  call.recv = &recv;
  call.bytes = 4;
  call.reduction = &reduction;
  EXPECT_TRUE(job->run(
                     *forced.of(call.coll), [&](int) { return call; }, repeat, program, &message)
                  .ok())
      << message;
  Outcome run{job->duration(), 0};
  for (int rank = 0; rank < job->size(); ++rank)
    run.interrupts += job->world().fabric(rank).interrupts();
  return run;
}

/// The same, a picosecond at a time.
Time end_by_steps(const Noise& n, int rank, Time begin, Time work) {
  const Time phase = mix(n.seed, static_cast<std::uint64_t>(rank)) % n.period;
  const auto away = [&](Time time) { return (time + n.period - phase) % n.period < n.duration; };
  Time time = begin;
  while (away(time)) ++time;
  for (Time done = 0; done < work; ++time) done += away(time) ? 0 : 1;
  return time;
}

TEST(Noise, WorkEndsWhenItsTimeWithoutDetoursIsOver) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Noise noise{97, 13, 0, seed};
    for (Time begin = 0; begin < 200; begin += 7) {
      for (const Time work : {0, 1, 5, 83, 84, 85, 168, 169, 500}) {
        ASSERT_EQ(end_of_work(noise, 3, begin, work), end_by_steps(noise, 3, begin, work))
            << "seed " << seed << " begin " << begin << " work " << work;
      }
    }
  }
}

TEST(Noise, CostsTimeIsRepeatedByItsSeedAndDiffersByIt) {
  JobSpec spec{16, 1, test::profile("via2003"), true};
  const std::string algorithm = "allreduce=degree_k:degree=3";
  const Program program{Progress::blocking, 50'000'000};
  const Time quiet = simulate(spec, algorithm, 20, program).duration;
  spec.noise = {1'000'000'000, 25'000'000, 0, 7};
  const Time noisy = simulate(spec, algorithm, 20, program).duration;
  EXPECT_GT(noisy, quiet);
  EXPECT_EQ(simulate(spec, algorithm, 20, program).duration, noisy);
  spec.noise.seed = 8;
  EXPECT_NE(simulate(spec, algorithm, 20, program).duration, noisy);
}

TEST(Noise, SkewMakesABarrierWaitForTheLastRank) {
  JobSpec spec{2, 1, test::profile("via2003"), true};
  const Time together = simulate(spec, "allreduce=degree_k:degree=1", 1, {}).duration;
  spec.noise.skew = 1'000'000'000;
  spec.noise.seed = 3;
  const Time first = skew_of(spec.noise, 0), second = skew_of(spec.noise, 1);
  ASSERT_NE(first, second);
  const Time apart = first > second ? first - second : second - first;
  const Time late = simulate(spec, "allreduce=degree_k:degree=1", 1, {}).duration;
  EXPECT_GE(late, apart);
  EXPECT_LE(late, apart + together);
}

TEST(Noise, TakingAllOfThePeriodIsRefused) {
  std::unique_ptr<SimJob> job;
  std::string message;
  JobSpec spec{2, 1, test::profile("via2003"), true};
  spec.noise = {10, 10, 0, 1};
  EXPECT_EQ(SimJob::create(spec, &job, &message).code, Code::invalid_argument);
  EXPECT_EQ(message, "noise must take less than its period");
}

// A program that starts the collective, computes far longer than that takes, and waits.
TEST(Overlap, InterruptsMoveACollectiveWhileTheHostMovesItOnlyAfterwards) {
  JobSpec spec{16, 1, test::profile("via2003"), true};
  spec.network.Ti = 5'000'000;
  const std::string algorithm = "allreduce=degree_k:degree=3";
  constexpr Time kCompute = 2'000'000'000;
  const Time alone = simulate(spec, algorithm, 1, {}).duration;
  const Outcome blocking = simulate(spec, algorithm, 1, {Progress::blocking, kCompute});
  const Outcome host = simulate(spec, algorithm, 1, {Progress::host, kCompute});
  const Outcome interrupt = simulate(spec, algorithm, 1, {Progress::interrupt, kCompute});
  EXPECT_EQ(blocking.duration, kCompute + alone);
  EXPECT_GT(host.duration, kCompute);  // all but the first step comes after the computation
  EXPECT_LE(host.duration, kCompute + alone);
  EXPECT_EQ(blocking.interrupts + host.interrupts, 0U);
  EXPECT_GT(interrupt.interrupts, 0U);
  // It is over before the computation: what is left is what the busiest rank was interrupted for.
  EXPECT_LT(interrupt.duration, host.duration + 16 * spec.network.Ti);
  spec.network.Ti = 0;
  const Outcome free = simulate(spec, algorithm, 1, {Progress::interrupt, kCompute});
  EXPECT_LT(free.duration, kCompute + alone / 2);
  EXPECT_LT(free.duration, interrupt.duration);
}

// A look in between costs its time, moves what has come, and is the last one once all is over.
TEST(Overlap, APolledCollectiveMovesAtTheLooksAndPaysForThem) {
  const JobSpec spec{16, 1, test::profile("via2003"), true};
  const std::string algorithm = "allreduce=degree_k:degree=3";
  constexpr Time kCompute = 2'000'000'000, kEvery = 10'000'000, kCost = 300'000;
  const Time alone = simulate(spec, algorithm, 1, {}).duration;
  const Time host = simulate(spec, algorithm, 1, {Progress::host, kCompute}).duration;
  const auto polled = [&](Time every, Time cost) {
    return simulate(spec, algorithm, 1, {Progress::polled, kCompute, every, cost}).duration;
  };
  EXPECT_LT(polled(kEvery, 0), host);
  // Whoever looks only at the end sees what the wait would have seen, later by what a look costs.
  EXPECT_EQ(polled(kCompute, 0), host);
  EXPECT_EQ(polled(kCompute, kCost), host + kCost);
  // All is over after a few looks: far fewer than there would be in the whole computation.
  const Time spent = polled(kEvery, kCost) - polled(kEvery, 0);
  EXPECT_GE(spent, kCost);
  EXPECT_LE(spent, (2 * alone / kEvery + 10) * kCost);
}

TEST(Overlap, AnInterruptCostsTheComputationTiAndTheHandler) {
  JobSpec spec{2, 1, test::profile("via2003"), true};
  spec.network.Ti = 7'000'000;
  constexpr Time kCompute = 1'000'000'000;
  // Rank 1 of a broadcast is interrupted once, and copies four bytes out of its block.
  const Outcome run = simulate(spec, "bcast=binomial", 1, {Progress::interrupt, kCompute});
  const Network& n = spec.network;
  EXPECT_EQ(run.duration, kCompute + n.Ti + n.Tc.of(4));
}

// On a node with a processor to spare the computation does not notice: the root is through last.
TEST(Overlap, AHandlerOnAnotherProcessorCostsTheComputationNothing) {
  JobSpec spec{2, 1, test::profile("via2003"), true};
  spec.network.Ti = 7'000'000;
  spec.network.handlers_elsewhere = true;
  constexpr Time kCompute = 1'000'000'000;
  const Outcome run = simulate(spec, "bcast=binomial", 1, {Progress::interrupt, kCompute});
  const Network& n = spec.network;
  EXPECT_EQ(run.duration, n.Tc.of(4) + n.Tm + n.Td + kCompute);
  EXPECT_EQ(run.interrupts, 1U);
}

// A detour that falls into an interrupt handler, or the other way round, is charged once.
TEST(Overlap, DetoursAndInterruptsDoNotChargeEachOtherTwice) {
  JobSpec spec{2, 1, test::profile("via2003"), true};
  spec.network.Ti = 7'000'000;
  constexpr Time kCompute = 1'000'000'000;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    spec.noise = {90'000'000, 30'000'000, 0, seed};
    const Network& n = spec.network;
    const Outcome run = simulate(spec, "bcast=binomial", 1, {Progress::interrupt, kCompute});
    const Time receiver = end_of_work(spec.noise, 1, 0, kCompute + n.Ti + n.Tc.of(4));
    const Time root = end_of_work(spec.noise, 0, 0, n.Tc.of(4) + n.Tm + n.Td + kCompute);
    EXPECT_NEAR(static_cast<double>(run.duration), static_cast<double>(std::max(receiver, root)),
                1.0)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::sim
