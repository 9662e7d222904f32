// The simulation against closed formulas, to the picosecond, where nothing contends.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::sim {
namespace {

Time simulate(const Network& network, int nodes, int ranks_per_node, const std::string& algorithm,
              std::size_t bytes, bool elided = true, int repeat = 1) {
  std::unique_ptr<SimJob> job;
  std::string message;
  EXPECT_TRUE(SimJob::create({nodes, ranks_per_node, network, elided}, &job, &message).ok())
      << message;
  Forced forced;
  EXPECT_TRUE(Forced::parse(algorithm, &forced, &message).ok()) << message;
  Choice choice;
  for (int coll = 0; coll < kColls; ++coll) {
    if (const Choice* found = forced.of(static_cast<Coll>(coll))) choice = *found;
  }
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i8, &reduction));
  std::vector<std::byte> send(bytes), recv(bytes);
  Call call;
  call.coll = choice.algorithm->coll;
  call.bytes = bytes;
  call.reduction = &reduction;
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(job->size()),
                                              std::vector<std::byte>(elided ? 1 : bytes));
  const auto call_of = [&](int rank) {
    Call mine = call;
    mine.send = send.data();
    mine.recv = elided ? recv.data() : buffers[static_cast<std::size_t>(rank)].data();
    return mine;
  };
  EXPECT_TRUE(job->run(choice, call_of, repeat, &message).ok()) << message;
  return job->duration();
}

/// Tm + Td + 2 (Ts + Tn) + Tt + Tl: one put, from posting to being visible.
Time put_latency(const Network& n, std::size_t bytes) {
  return n.Tm + n.Td + 2 * (n.Ts + n.Tn) + n.Tt.of(bytes + n.counter_bytes) + n.Tl;
}

TEST(Formulas, PutLatencyBetweenTwoNodes) {
  const Network n = test::profile("via2003");
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({2, 1, n, false, 1 << 20}, &world, &message).ok()) << message;
  SimFabric& sender = world->fabric(0);
  SimFabric& receiver = world->fabric(1);
  Remote there;
  ASSERT_TRUE(sender.arena_of(1, &there).ok());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{1000}, std::size_t{100000}}) {
    Completion completion;
    const Tail tail{1 << 19, bytes + 1};
    const Time begin = std::max(sender.clock(), world->now());
    sender.advance_to(begin);
    std::memset(sender.arena().base, static_cast<int>(bytes % 251) + 1, bytes);
    ASSERT_TRUE(sender.put(there, 0, sender.arena().base, bytes, &tail, &completion).ok());
    EXPECT_EQ(sender.clock(), begin + n.Tm + n.Td);
    world->run();
    EXPECT_EQ(world->now(), begin + put_latency(n, bytes));
    EXPECT_EQ(completion.finished(), 1U);
    EXPECT_EQ(std::memcmp(receiver.arena().base, sender.arena().base, bytes), 0);
  }
}

TEST(Formulas, DataIsTakenWhenTheNicReadsItNotBefore) {
  const Network n = test::profile("via2003");
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({2, 1, n, false, 1 << 20}, &world, &message).ok()) << message;
  Remote there;
  ASSERT_TRUE(world->fabric(0).arena_of(1, &there).ok());
  auto* source = static_cast<char*>(world->fabric(0).arena().base);
  Completion completion;
  const Tail tail{64, 1};
  source[0] = 1;
  ASSERT_TRUE(world->fabric(0).put(there, 0, source, 1, &tail, &completion).ok());
  source[0] = 2;  // before the completion: the receiver must get this, as a NIC would
  world->run();
  EXPECT_EQ(*static_cast<char*>(world->fabric(1).arena().base), 2);
}

TEST(Formulas, MessagesInARowLeaveEveryTtPlusTa) {
  const Network n = test::profile("via2003");
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({2, 1, n, true, 1 << 20}, &world, &message).ok()) << message;
  SimFabric& sender = world->fabric(0);
  Remote there;
  ASSERT_TRUE(sender.arena_of(1, &there).ok());
  constexpr int kMessages = 10;
  constexpr std::size_t kBytes = 500;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const Tail tail{0, i + 1};
    ASSERT_TRUE(sender.put(there, 0, sender.arena().base, kBytes, &tail, nullptr).ok());
  }
  world->run();
  EXPECT_EQ(world->now(),
            put_latency(n, kBytes) + (kMessages - 1) * (n.Tt.of(kBytes + n.counter_bytes) + n.Ta));
}

TEST(Formulas, MessagesFromManyEnterEveryTnOrTt) {
  const Network n = test::profile("via2003");
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{2000}}) {
    std::unique_ptr<World> world;
    std::string message;
    ASSERT_TRUE(World::create({9, 1, n, true, 1 << 20}, &world, &message).ok()) << message;
    for (int rank = 1; rank < 9; ++rank) {
      SimFabric& sender = world->fabric(rank);
      Remote there;
      ASSERT_TRUE(sender.arena_of(0, &there).ok());
      const Tail tail{static_cast<std::size_t>(rank) * 8, 1};
      ASSERT_TRUE(sender.put(there, 0, sender.arena().base, bytes, &tail, nullptr).ok());
    }
    world->run();
    EXPECT_EQ(world->now(),
              put_latency(n, bytes) + 7 * std::max(n.Tn, n.Tt.of(bytes + n.counter_bytes)));
  }
}

TEST(Formulas, GetTakesARequestAndAReply) {
  const Network n = test::profile("via2003");
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({2, 1, n, false, 1 << 20}, &world, &message).ok()) << message;
  Remote there;
  ASSERT_TRUE(world->fabric(0).arena_of(1, &there).ok());
  std::memset(world->fabric(1).arena().base, 7, 100);
  char got[100] = {};
  Completion completion;
  ASSERT_TRUE(world->fabric(0).get(there, 0, got, sizeof got, &completion).ok());
  world->run();
  EXPECT_EQ(completion.finished(), 1U);
  EXPECT_EQ(got[99], 7);
  // There: Ts, Tn, Tn of the target; back: Ts, Tn, Tt, Tn, Ts.
  EXPECT_EQ(world->now(), n.Tm + n.Td + 3 * n.Ts + 4 * n.Tn + n.Tt.of(100) + 2 * n.Tl);
}

class BinomialBroadcast : public ::testing::TestWithParam<std::size_t> {};

// log2 N [Tm + Td + 2 (Ts + Tn) + m Tt + (num - 1) Ta] + Tc (first + last block), VIA-2003,
// section 5.
TEST_P(BinomialBroadcast, IsThePublishedModelAtPowersOfTwo) {
  const Network n = test::profile("via2003");
  const std::size_t bytes = GetParam();
  for (const std::size_t block :
       {std::size_t{1024}, std::size_t{2048}, std::size_t{3072}, std::size_t{5120}}) {
    const std::size_t blocks = (bytes + block - 1) / block;
    if (blocks > 5) continue;
    const std::size_t first = std::min(bytes, block);
    const std::size_t last = bytes - (blocks - 1) * block;
    Time wire = 0;
    for (std::size_t i = 0; i < blocks; ++i)
      wire += n.Tt.of((i + 1 < blocks ? block : last) + n.counter_bytes);
    const Time stage = n.Tm + n.Td + 2 * (n.Ts + n.Tn) + wire + (blocks - 1) * n.Ta;
    for (int nodes = 2; nodes <= 256; nodes *= 2) {
      const auto stages = static_cast<Time>(std::countr_zero(static_cast<unsigned>(nodes)));
      const std::string algorithm = "bcast=binomial:block=" + std::to_string(block);
      // A copy is hidden behind the next block, unless that is so short that it waits for the copy.
      const Time next = n.Tt.of(last + n.counter_bytes) + n.Ta;
      const Time waits = blocks > 1 && n.Tc.of(block) > next ? n.Tc.of(block) - next : 0;
      const Time expected = stages * stage + n.Tc.of(first) + n.Tc.of(last) + waits;
      EXPECT_EQ(simulate(n, nodes, 1, algorithm, bytes), expected)
          << nodes << " nodes, block " << block;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Bytes, BinomialBroadcast,
                         ::testing::Values(4, 1024, 1025, 3072, 4096, 4608, 5000));

// Degree-k reduce of k + 1 ranks without contention for the reducer: one stage, k arrivals Tn or Tt
// apart, and the last fold; then log2 N stages down.
TEST(Formulas, DegreeKAllreduceOfOneStep) {
  const Network n = test::profile("via2003");
  for (const int degree : {1, 3, 7, 15}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{1024}}) {
      const int nodes = degree + 1;
      const auto down = static_cast<Time>(std::countr_zero(static_cast<unsigned>(nodes)));
      const Time gap = std::max(n.Tn, n.Tt.of(bytes + n.counter_bytes));
      const Time fold = n.To + n.To_byte.of(bytes);
      const Time copy = n.Tc.of(bytes);
      // Up: the child's copy and put, the others' gaps, the last fold. Down: the root copies its
      // result into registered memory, the others forward from there; the last leaf copies out.
      const Time up = copy + put_latency(n, bytes) + static_cast<Time>(degree - 1) * gap + fold;
      const Time expected = up + copy + down * put_latency(n, bytes) + copy;
      EXPECT_EQ(simulate(n, nodes, 1, "allreduce=degree_k:degree=" + std::to_string(degree), bytes),
                expected)
          << "degree " << degree << ", " << bytes << " bytes";
    }
  }
}

TEST(Formulas, ElidingThePayloadDoesNotChangeTheTime) {
  const Network n = test::profile("via2003");
  for (const int nodes : {2, 5, 16, 37}) {
    for (const char* algorithm :
         {"bcast=binomial", "allreduce=degree_k", "reduce=degree_k", "barrier=degree_k"}) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}}) {
        EXPECT_EQ(simulate(n, nodes, 1, algorithm, bytes, true, 10),
                  simulate(n, nodes, 1, algorithm, bytes, false, 10))
            << algorithm << " " << nodes << " nodes " << bytes << " bytes";
      }
    }
  }
}

// The queue, the pools and the layout of memory are for speed: a run is the same event for event.
// Of each message one is its arrival, one its being visible and, where the sender waits for it, one
// its having been read: the root's small puts are copied, so it waits for none.
TEST(Formulas, ALargeBroadcastHasTheSameEventsAndTimeInEveryRun) {
  const Network n = test::profile("via2003");
  constexpr int kNodes = 1 << 14, kStages = 14;
  for (int run = 0; run < 2; ++run) {
    std::unique_ptr<SimJob> job;
    std::string message;
    ASSERT_TRUE(SimJob::create({kNodes, 1, n, true}, &job, &message).ok()) << message;
    const Algorithm* binomial = find_algorithm(Coll::bcast, "binomial");
    std::byte data{};
    Call call;
    call.coll = Coll::bcast;
    call.bytes = 4;
    call.recv = &data;
    ASSERT_TRUE(job->run(
                       {binomial, binomial->defaults()}, [&](int) { return call; }, 1, &message)
                    .ok())
        << message;
    EXPECT_EQ(job->world().events(), 3U * (kNodes - 1) - kStages);
    EXPECT_EQ(job->duration(), kStages * put_latency(n, 4) + 2 * n.Tc.of(4));
  }
}

TEST(Formulas, ProcessesOfANodeShareItsNic) {
  const Network n = test::profile("via2003");
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({2, 4, n, true, 1 << 20}, &world, &message).ok()) << message;
  for (int rank = 0; rank < 4; ++rank) {
    Remote there;
    ASSERT_TRUE(world->fabric(rank).arena_of(4 + rank, &there).ok());
    const Tail tail{0, 1};
    ASSERT_TRUE(world->fabric(rank)
                    .put(there, 0, world->fabric(rank).arena().base, 100, &tail, nullptr)
                    .ok());
  }
  world->run();
  EXPECT_EQ(world->now(), put_latency(n, 100) + 3 * (n.Tt.of(101) + n.Ta));
}

TEST(Formulas, AStoreWithinANodeCostsACacheLine) {
  const Network n = test::profile("via2003");
  // Two ranks exchange flags once: publish, see the other's.
  EXPECT_EQ(simulate(n, 1, 2, "barrier=flat", 0), n.line);
}

TEST(Formulas, AnOversubscribedFatTreeQueuesInItsUplinks) {
  Network n = test::profile("via2003");
  n.leaf_nodes = 4;
  n.uplinks = 1;
  n.hop = 100'000;
  std::unique_ptr<World> world;
  std::string message;
  ASSERT_TRUE(World::create({8, 1, n, true, 1 << 20}, &world, &message).ok()) << message;
  constexpr std::size_t kBytes = 4000;
  for (int rank = 0; rank < 4; ++rank) {
    Remote there;
    ASSERT_TRUE(world->fabric(rank).arena_of(4 + rank, &there).ok());
    const Tail tail{0, 1};
    ASSERT_TRUE(world->fabric(rank)
                    .put(there, 0, world->fabric(rank).arena().base, kBytes, &tail, nullptr)
                    .ok());
  }
  world->run();
  EXPECT_EQ(world->now(),
            put_latency(n, kBytes) + 2 * n.hop + 3 * n.Tt.of(kBytes + n.counter_bytes));
}

TEST(Formulas, TheSameRunTwiceGivesTheSame) {
  const Network n = test::profile("via2003");
  const Time once = simulate(n, 37, 3, "allreduce=degree_k", 1000, false, 20);
  EXPECT_EQ(simulate(n, 37, 3, "allreduce=degree_k", 1000, false, 20), once);
}

}  // namespace
}  // namespace tutti::sim
