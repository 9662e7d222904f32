// The models of CDCP-2008: the paper's own examples, and against the simulation.
#include "model/cdcp2008.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sim/dedicated.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

double simulated(int apps, int dcps) {
  sim::DedicatedSpec spec;
  spec.apps = apps;
  spec.dcps = dcps;
  spec.cores = 1;  // no shared NICs, as in the model
  spec.network = sim::test::profile("opteron2008");
  sim::DedicatedRun run;
  run.call.coll = Coll::allreduce;
  run.call.bytes = 8;
  run.repeat = 4;
  sim::DedicatedTimes times;
  std::string message;
  EXPECT_TRUE(run_dedicated(spec, run, &times, &message).ok()) << message;
  return static_cast<double>(times.start + times.wait) / sim::kMicrosecond;
}

TEST(Steps, OfThePapersFigures) {
  EXPECT_DOUBLE_EQ(model::conventional_steps(4), 6);  // figure 1
  EXPECT_DOUBLE_EQ(model::published_steps(1), 2);     // as printed
  EXPECT_DOUBLE_EQ(model::corrected_steps(1), 3);     // as drawn in figure 3
}

// "Ratios of 1:2 and more reduce the number of steps": true of the corrected formula; the printed
// one would gain with a DCP for each APP but one already.
TEST(Steps, AreFewerFromOneToTwoOn) {
  for (const int processors : {8, 64, 512}) {
    EXPECT_GE(model::corrected_steps(processors), model::conventional_steps(processors));
    EXPECT_LE(model::corrected_steps(processors / 2), model::conventional_steps(processors));
    EXPECT_LT(model::corrected_steps(processors / 4), model::conventional_steps(processors));
  }
}

// In the simulation the APPs do not start together: each begins again when it has its answer, so
// that requests and answers overlap, and a collective takes a little less than modelled.
TEST(DedicatedAllreduce, AgreesWithTheSimulation) {
  const sim::Network network = sim::test::profile("opteron2008");
  const std::pair<int, int> shapes[] = {{8, 1}, {8, 2}, {32, 8}, {64, 8}, {64, 16}};
  for (const auto& [apps, dcps] : shapes) {
    const double model = model::dedicated_allreduce(network, dcps, apps / dcps, 8);
    const double found = simulated(apps, dcps);
    EXPECT_NEAR(found / model, 0.9, 0.15) << apps << " APPs, " << dcps << " DCPs: " << found
                                          << " us simulated, " << model << " modelled";
  }
}

TEST(BreakEven, OfAnApplication) {
  // 10 of computation, 4 of collectives, a quarter of the processors taken.
  const model::Application app{10, 4, 1, 0};
  EXPECT_DOUBLE_EQ(model::with_dedicated(app, 0.25, 0.7, 0.1), 12.5 + 2.8 + 1);
  EXPECT_FALSE(model::published_rule_gains(app, 0.25));  // 4 < 0.25 / 0.3 * 10
  const model::Application overlapped{10, 4, 1, 3};
  EXPECT_DOUBLE_EQ(model::with_dedicated(overlapped, 0.25, 0.7, 0.1), 12.5 + 0.1 + 1);
  // Here both rules agree ...
  EXPECT_TRUE(model::published_rule_gains(overlapped, 0.25));
  EXPECT_LT(model::with_dedicated(overlapped, 0.25, 0.7, 0.1), 10 + 4 + 1);
  // ... and here the printed one promises a gain that there is not.
  const model::Application few{10, 2.6, 1, 1};
  EXPECT_TRUE(model::published_rule_gains(few, 0.25));
  EXPECT_GT(model::with_dedicated(few, 0.25, 0.7, 0.1), 10 + 2.6 + 1) << "it loses";
}

TEST(DedicatedAllreduce, IsLinearInTheAppsOfADcp) {
  const sim::Network network = sim::test::profile("opteron2008");
  const double few = model::dedicated_allreduce(network, 1, 64, 8);
  const double many = model::dedicated_allreduce(network, 1, 512, 8);
  EXPECT_GT(many / few, 6);
  EXPECT_LT(many / few, 8.1);
}

}  // namespace
}  // namespace tutti
