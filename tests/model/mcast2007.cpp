// The models of MCAST-2007 against the simulation.
#include "model/mcast2007.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sim/job.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

struct Found {
  double mean = 0;  // of the ranks but the root, us
  double root = 0;
};

Found simulated(int nodes, const std::string& algorithm, double loss, std::size_t bytes,
                int runs = 1) {
  sim::Network network = sim::test::profile("odin2007");
  network.loss = loss;
  Found found;
  for (int seed = 1; seed <= runs; ++seed) {
    sim::JobSpec spec{nodes, 1, network, true};
    spec.noise.seed = static_cast<std::uint64_t>(seed);
    std::unique_ptr<sim::SimJob> job;
    std::string message;
    EXPECT_TRUE(sim::SimJob::create(spec, &job, &message).ok()) << message;
    Forced forced;
    EXPECT_TRUE(Forced::parse("bcast=" + algorithm, &forced, &message).ok()) << message;
    Call call;
    call.coll = Coll::bcast;
    call.bytes = bytes;
    const auto run = job->run(
        *forced.of(Coll::bcast), [&](int) { return call; }, 1, &message);
    EXPECT_TRUE(run.ok()) << message;
    const auto us = [&](int rank) {
      return static_cast<double>(job->finished(rank)) / sim::kMicrosecond;
    };
    for (int rank = 1; rank < nodes; ++rank) found.mean += us(rank) / (nodes - 1) / runs;
    found.root += us(0) / runs;
  }
  return found;
}

sim::Network odin() { return sim::test::profile("odin2007"); }

TEST(Multicast2007, EqualsTheSimulationWhereNothingIsLost) {
  for (const std::size_t bytes : {1, 100, 1000, 2024}) {
    // All but the last member put to the next one, unless that one tells in time (from 256 B on).
    const int nodes = 1000;
    const double model = model::multicast_mean(odin(), bytes, 0);
    const double found = simulated(nodes, "multicast", 0, bytes).mean;
    EXPECT_NEAR(found / model, 1, bytes < 256 ? 0.001 : 0.2) << bytes;
  }
}

TEST(Multicast2007, ExpectsTheRepairOfTheRing) {
  for (const double loss : {0.00287, 0.1, 0.3}) {
    const double model = model::multicast_mean(odin(), 1, loss);
    const double found = simulated(2000, "multicast:chords=1", loss, 1, 3).mean;
    EXPECT_NEAR(found / model, 1, 0.05) << loss << ": " << found << " us, modelled " << model;
  }
  EXPECT_DOUBLE_EQ(model::expected_steps(0), 0);
  EXPECT_DOUBLE_EQ(model::expected_steps(0.5), 1);
  EXPECT_NEAR(model::longest_run(1000, 0.5), 9, 0.1);
  EXPECT_DOUBLE_EQ(model::longest_run(1000, 0), 0);
}

TEST(Multicast2007, CastsUntilEverybodyHasIt) {
  EXPECT_DOUBLE_EQ(model::expected_casts(100, 0), 1);
  EXPECT_NEAR(model::expected_casts(1, 0.5), 2, 1e-9);
  EXPECT_NEAR(model::expected_casts(2, 0.5), 8.0 / 3, 1e-9);  // 2 + 2 - 4/3: the later of two
}

using Rival = double (*)(const sim::Network&, int, std::size_t, double, double);

TEST(Multicast2007, AcknowledgementsAgreeWithTheSimulation) {
  const std::pair<const char*, Rival> rivals[] = {{"multicast_linear_ack", model::linear_ack},
                                                  {"multicast_tree_ack", model::tree_ack},
                                                  {"multicast_coroot_ack", model::coroot_ack}};
  for (const auto& [name, rival] : rivals) {
    for (const int nodes : {16, 256, 1024}) {
      const double found = simulated(nodes, name, 0, 1).root;
      EXPECT_NEAR(found / rival(odin(), nodes, 1, 0, 1000), 1, 0.15) << name << ' ' << nodes;
    }
  }
}

TEST(Multicast2007, NackWaitsForItsTimeout) {
  const double model = model::nack_mean(odin(), 1, 0.05, 200);
  const double found = simulated(500, "multicast_nack:timeout=200", 0.05, 1, 4).mean;
  EXPECT_NEAR(found / model, 1, 0.25) << found << " us, modelled " << model;
}

}  // namespace
}  // namespace tutti
