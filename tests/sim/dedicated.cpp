// Dedicated processors in virtual time: the results are right, the overhead does not grow with the
// ranks, and a DCP with too many APPs is the bottleneck.
#include "sim/dedicated.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sim/profile.hpp"

namespace tutti::sim {
namespace {

DedicatedTimes simulate(int apps, int dcps, std::size_t bytes = 8, double compute_us = 0,
                        Coll coll = Coll::allreduce, int repeat = 6, int cores = 4) {
  DedicatedSpec spec;
  spec.apps = apps;
  spec.dcps = dcps;
  spec.cores = cores;
  spec.network = test::profile("opteron2008");
  DedicatedRun run;
  run.call.coll = coll;
  run.call.bytes = coll == Coll::barrier ? 0 : bytes;
  run.compute = static_cast<Time>(compute_us * kMicrosecond);
  run.repeat = repeat;
  DedicatedTimes times;
  std::string message;
  EXPECT_TRUE(run_dedicated(spec, run, &times, &message).ok()) << message;
  return times;
}

Time latency(const DedicatedTimes& times) { return times.start + times.wait; }

// run_dedicated() checks the sums.
TEST(Dedicated, ResultsAreRightForManyShapes) {
  for (const int apps : {1, 2, 3, 7, 16, 33}) {
    for (int dcps = 1; dcps <= apps; dcps += 1 + dcps / 2) {
      for (const std::size_t bytes : {0, 8, 64, 1024, 4096, 200'000}) {
        simulate(apps, dcps, bytes, 0, Coll::allreduce, 3);
        if (HasFailure()) FAIL() << apps << " APPs, " << dcps << " DCPs, " << bytes << " B";
      }
    }
  }
}

TEST(Dedicated, EveryOffloadedCollectiveRuns) {
  for (const Coll coll :
       {Coll::barrier, Coll::bcast, Coll::reduce, Coll::allgather, Coll::alltoall})
    EXPECT_GT(latency(simulate(12, 3, 64, 0, coll)), 0u) << name(coll);
}

TEST(Dedicated, IsDeterministic) {
  EXPECT_EQ(latency(simulate(40, 10)), latency(simulate(40, 10)));
}

TEST(Dedicated, OverheadIsThatOfOnePutWhateverTheNumberOfRanks) {
  // Each on a node of its own: with several on a node some of the puts are stores.
  const auto alone = [](int apps, int dcps, double compute_us) {
    return simulate(apps, dcps, 8, compute_us, Coll::allreduce, 6, 1);
  };
  const DedicatedTimes few = alone(8, 2, 400), many = alone(256, 64, 400);
  EXPECT_EQ(few.start, many.start);
  EXPECT_EQ(latency(few), latency(many));
  EXPECT_LT(latency(many), latency(alone(256, 64, 0)) / 4) << "nothing was hidden";
  EXPECT_LT(latency(simulate(256, 64, 8, 400)), latency(many)) << "stores are cheaper";
}

TEST(Dedicated, OneDcpForAllIsTheBottleneck) {
  const Time one = latency(simulate(128, 1)), some = latency(simulate(128, 16));
  EXPECT_GT(one, 3 * some);
  EXPECT_EQ(simulate(128, 1).most_apps, 128);
}

TEST(Dedicated, BadNumbersAreErrors) {
  DedicatedTimes times;
  std::string message;
  DedicatedSpec spec;
  spec.network = test::profile("opteron2008");
  DedicatedRun run;
  run.call.coll = Coll::allreduce;
  run.call.bytes = 8;
  run.repeat = 2;
  spec.apps = 4;
  spec.dcps = 5;
  EXPECT_FALSE(run_dedicated(spec, run, &times, &message).ok());
  EXPECT_NE(message.find("DCP"), std::string::npos);
  spec.dcps = 1;
  run.call.bytes = 7;
  EXPECT_FALSE(run_dedicated(spec, run, &times, &message).ok());
}

}  // namespace
}  // namespace tutti::sim
