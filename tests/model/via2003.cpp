// The analytical models: by hand on round numbers, and against the simulation.
#include "model/via2003.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "sim/job.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

double simulate(const sim::Network& network, int nodes, const std::string& algorithm,
                std::size_t bytes) {
  std::unique_ptr<sim::SimJob> job;
  std::string message;
  EXPECT_TRUE(sim::SimJob::create({nodes, 1, network, true}, &job, &message).ok()) << message;
  Forced forced;
  if (!Forced::parse(algorithm, &forced, &message).ok()) throw std::invalid_argument(message);
  const Coll coll = algorithm.starts_with("bcast") ? Coll::bcast : Coll::allreduce;
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i8, &reduction));
  static std::byte send, recv;
  Call call;
  call.coll = coll;
  call.bytes = bytes;
  call.reduction = &reduction;
  call.send = &send;
  call.recv = &recv;
  EXPECT_TRUE(job->run(
                     *forced.of(coll), [&](int) { return call; }, 1, &message)
                  .ok())
      << message;
  return static_cast<double>(job->duration()) / sim::kMicrosecond;
}

TEST(Models, BroadcastByHand) {
  const sim::Network n = sim::test::profile("via2003");
  // 16 nodes, 4 B: 4 (1.3 + 0.6 + 2 (2 + 1.52) + 5 x 0.01) + 8 x 0.0027.
  EXPECT_NEAR(model::broadcast(n, 16, 4, 3072), 4 * 8.99 + 0.0216, 1e-9);
  // 4608 B in two blocks: one more Ta a stage, and the copies of 3072 and 1536 bytes.
  EXPECT_NEAR(model::broadcast(n, 16, 4608, 3072), 4 * (8.94 + 46.10 + 2.1) + 4608 * 0.0027, 1e-9);
}

TEST(Models, AllreduceBoundsByHand) {
  const sim::Network n = sim::test::profile("via2003");
  const double put = 8.94 + 0.05, copy = 4 * 0.0027, fold = 4 * 0.0027;
  EXPECT_NEAR(model::allreduce(n, 4, 4, 3, model::Case::best),
              copy + put + 2 * 1.52 + fold + copy + 2 * put + copy, 1e-9);
  EXPECT_NEAR(model::allreduce(n, 4, 4, 3, model::Case::worst),
              copy + put + 2 * (3.52 + 0.05) + 3 * fold + copy + 2 * put + copy, 1e-9);
  EXPECT_NEAR(model::allreduce(n, 4, 4, 3, model::Case::uncontended),
              copy + put + 2 * fold + fold + copy + 2 * put + copy, 1e-9);
}

TEST(Models, OptimalBlockAndDegreeAreThePublishedOnes) {
  const sim::Network n = sim::test::profile("via2003");
  for (const std::size_t bytes : {std::size_t{2500}, std::size_t{4608}}) {
    EXPECT_EQ(model::optimal_block(n, 16, bytes, {1024, 2048, 3072, 5120}), 3072U) << bytes;
  }
  EXPECT_EQ(model::optimal_degree(n, 16, 4, {1, 3, 7, 15}), 3);
  EXPECT_EQ(model::optimal_degree(n, 8, 4, {1, 3, 7}), 7);
  EXPECT_EQ(model::optimal_degree(n, 16, 4096, {1, 3, 7, 15}), 1);
}

TEST(Models, BroadcastAgreesWithTheSimulation) {
  const sim::Network n = sim::test::profile("via2003");
  for (int nodes = 2; nodes <= 1024; nodes *= 2) {
    for (const std::size_t bytes :
         {std::size_t{4}, std::size_t{1024}, std::size_t{3072}, std::size_t{4096}}) {
      EXPECT_NEAR(model::broadcast(n, nodes, bytes, 3072),
                  simulate(n, nodes, "bcast=binomial", bytes), 1e-5)
          << nodes << " nodes, " << bytes << " bytes";
    }
  }
}

TEST(Models, SendReceiveAgreesWithTheSimulation) {
  const sim::Network n = sim::test::profile("via2003");
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{1024}}) {
    EXPECT_NEAR(model::send_receive(n, bytes, 1024),
                simulate(n, 2, "bcast=sendrecv_binomial", bytes), 1e-5)
        << bytes;
  }
}

TEST(Models, SimulatedAllreduceLiesBetweenBestAndWorst) {
  const sim::Network n = sim::test::profile("via2003");
  for (const int degree : {1, 3, 7, 15}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{128}, std::size_t{512},
                                    std::size_t{2048}, std::size_t{4608}}) {
      const double time =
          simulate(n, 16, "allreduce=degree_k:degree=" + std::to_string(degree), bytes);
      EXPECT_GE(time, model::allreduce(n, 16, bytes, degree, model::Case::best) - 1e-5)
          << degree << ", " << bytes;
      EXPECT_LE(time, model::allreduce(n, 16, bytes, degree, model::Case::worst) + 1e-5)
          << degree << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace tutti
