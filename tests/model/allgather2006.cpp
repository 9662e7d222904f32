// The models of the allgathers against the simulation.
#include "model/allgather2006.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "sim/job.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

double simulate(const sim::Network& network, int nodes, int ppn, const std::string& algorithm,
                std::size_t bytes) {
  std::unique_ptr<sim::SimJob> job;
  std::string message;
  EXPECT_TRUE(sim::SimJob::create({nodes, ppn, network, true}, &job, &message).ok()) << message;
  Forced forced;
  if (!Forced::parse("allgather=" + algorithm, &forced, &message).ok())
    throw std::invalid_argument(message);
  static std::byte send, recv;
  Call call;
  call.coll = Coll::allgather;
  call.bytes = bytes;
  call.send = &send;
  call.recv = &recv;
  EXPECT_TRUE(job->run(
                     *forced.of(Coll::allgather), [&](int) { return call; }, 1, &message)
                  .ok())
      << message;
  return static_cast<double>(job->duration()) / sim::kMicrosecond;
}

TEST(AllgatherModel, RecursiveDoublingByHand) {
  EXPECT_DOUBLE_EQ(model::recursive_doubling(5, 0.001, 1000, 8), 15 + 7);
}

// Equation 1 of the paper, and the own block's copy into place: exact, where every message is one
// packet and is copied in and out.
TEST(AllgatherModel, EquationOneIsTheSimulationExactly) {
  const sim::Network n = sim::test::profile("via2003");
  const model::StartupAndByte terms = model::two_sided(n);
  for (int nodes = 2; nodes <= 256; nodes *= 2) {
    for (const std::size_t m : {1, 8, 20}) {
      const double own = static_cast<double>(m) * n.Tc.microseconds();
      const double expected =
          model::recursive_doubling(terms.ts, terms.tw, static_cast<double>(m), nodes) + own;
      EXPECT_NEAR(simulate(n, nodes, 1, "sendrecv_recursive_doubling", m), expected, 1e-4)
          << nodes << " nodes, " << m << " B";
      EXPECT_NEAR(model::allgather_send_receive(n, nodes, 1, m, 5120), expected, 1e-6);
    }
  }
}

// With several processes on a node its NIC is shared; where the messages of a step are one packet
// each, the model has that too.
TEST(AllgatherModel, ProcessesOfANodeShareItsNic) {
  for (const char* profile : {"via2003", "ib2006"}) {
    const sim::Network n = sim::test::profile(profile);
    for (const int nodes : {2, 4, 16}) {
      for (const std::size_t m : {8, 64, 150}) {
        const double simulated = simulate(n, nodes, 2, "sendrecv_recursive_doubling", m);
        const double modelled = model::allgather_send_receive(n, nodes, 2, m, 5120);
        EXPECT_NEAR(modelled / simulated, 1, 0.05) << profile << " " << nodes << " x 2, " << m;
      }
    }
  }
}

TEST(AllgatherModel, OverlapSavesAtMostAThird) {
  const sim::Network n = sim::test::profile("ib2006");
  for (std::size_t m = 1; m <= 65536; m *= 4) {
    const double apart = model::allgather_shared_buffer(n, 32, 2, m, false);
    const double together = model::allgather_shared_buffer(n, 32, 2, m, true);
    EXPECT_LE(together, apart) << m;
    EXPECT_LE(apart / together, 1.5) << m;
  }
}

}  // namespace
}  // namespace tutti
