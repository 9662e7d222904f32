// Datagrams of the simulation: who gets them, what they cost, what is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fabric/sim/sim.hpp"
#include "profile.hpp"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kId[2] = {1, 2};

std::unique_ptr<World> machine(int nodes, int ranks_per_node, const Network& network,
                               std::uint64_t seed = 1) {
  WorldSpec spec{nodes, ranks_per_node, network, false, 1 << 20};
  spec.noise.seed = seed;
  std::unique_ptr<World> world;
  std::string message;
  EXPECT_TRUE(World::create(spec, &world, &message).ok()) << message;
  return world;
}

void join_all(World& world, int depth) {
  for (int rank = 0; rank < world.ranks(); ++rank) {
    int group = -1;
    ASSERT_TRUE(world.fabric(rank).datagrams()->join(kId, depth, &group).ok());
    ASSERT_EQ(group, 0);
  }
}

/// The numbers that the rank has received, in their order.
std::vector<int> received(World& world, int rank) {
  std::vector<int> numbers;
  int number = 0;
  while (world.fabric(rank).datagrams()->receive(0, &number, sizeof number) == sizeof number)
    numbers.push_back(number);
  return numbers;
}

void cast_numbers(World& world, int rank, int count) {
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE(world.fabric(rank).datagrams()->cast(0, &i, sizeof i).ok());
  world.run();
}

TEST(Datagrams, ReachAllMembersButTheSenderAtTheSameTime) {
  const Network n = test::profile("via2003");
  const auto world = machine(5, 1, n);
  join_all(*world, 5);
  cast_numbers(*world, 2, 1);
  EXPECT_EQ(world->now(), n.Tm + n.Td + n.Tc.of(4) + 2 * (n.Ts + n.Tn) + n.Tt.of(4) + n.Tl);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(world->fabric(rank).datagrams()->arrivals(0).load(), rank == 2 ? 0U : 1U);
    EXPECT_EQ(received(*world, rank).size(), rank == 2 ? 0U : 1U) << rank;
  }
}

TEST(Datagrams, AreSentOnceHoweverManyReceive) {
  const Network n = test::profile("via2003");
  Time last = 0;
  for (const int nodes : {2, 9, 64}) {
    const auto world = machine(nodes, 1, n);
    join_all(*world, 20);
    cast_numbers(*world, 0, 10);
    EXPECT_TRUE(last == 0 || world->now() == last)
        << nodes << " nodes: " << world->now() << " after " << last;
    last = world->now();
  }
}

TEST(Datagrams, ReachTheProcessesOfANodeTogether) {
  const auto world = machine(2, 3, test::profile("via2003"));
  join_all(*world, 5);
  cast_numbers(*world, 4, 2);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(received(*world, rank).size(), rank == 4 ? 0U : 2U) << rank;
}

TEST(Datagrams, TakeOneUplinkAndOneDownlinkOfEachLeaf) {
  Network n = test::profile("via2003");
  n.leaf_nodes = 4;
  n.uplinks = 1;
  n.hop = 100'000;
  const auto world = machine(16, 1, n);
  join_all(*world, 20);
  cast_numbers(*world, 0, 10);
  for (int rank = 1; rank < 16; ++rank) EXPECT_EQ(received(*world, rank).size(), 10U) << rank;
  // Ten leave every Tt + Ta; links, which are faster, do not hold them up: fifteen receivers are as
  // good as one.
  const Time gap = n.Tt.of(4) + n.Ta;
  const Time processor = n.Tm + n.Td + n.Tc.of(4);
  EXPECT_EQ(world->now(), processor + 2 * (n.Ts + n.Tn) + n.Tt.of(4) + n.Tl + 2 * n.hop +
                              9 * std::max(gap, processor));
}

TEST(Datagrams, AreLostWhereNoReceiveIsPosted) {
  const auto world = machine(2, 1, test::profile("via2003"));
  join_all(*world, 5);
  cast_numbers(*world, 0, 8);
  EXPECT_EQ(received(*world, 1), (std::vector<int>{0, 1, 2, 3, 4}));
  cast_numbers(*world, 0, 1);
  EXPECT_EQ(received(*world, 1), std::vector<int>{0});  // taking them has posted receives again
}

TEST(Datagrams, AreLostDoubledAndReorderedBySeed) {
  Network n = test::profile("via2003");
  n.loss = 0.1;
  n.duplicate = 0.05;
  n.reorder = 0.2;
  n.reorder_by = 20'000'000;
  constexpr int kCasts = 2000;
  std::set<std::vector<int>> outcomes;
  for (const std::uint64_t seed : {1, 2, 1}) {
    const auto world = machine(2, 1, n, seed);
    join_all(*world, 2 * kCasts);
    cast_numbers(*world, 0, kCasts);
    const std::vector<int> numbers = received(*world, 1);
    std::map<int, int> times;
    int late = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ++times[numbers[i]];
      late += i > 0 && numbers[i] < numbers[i - 1] ? 1 : 0;
    }
    const auto lost = kCasts - static_cast<int>(times.size());
    EXPECT_NEAR(lost, 200, 60);
    EXPECT_NEAR(static_cast<double>(numbers.size()) - static_cast<double>(times.size()), 90, 45);
    EXPECT_GT(late, 100);
    outcomes.insert(numbers);
  }
  EXPECT_EQ(outcomes.size(), 2U) << "the same seed must give the same, another one something else";
}

TEST(Datagrams, RefuseWhatCannotBe) {
  const auto world = machine(2, 1, test::profile("via2003"));
  Datagrams& mine = *world->fabric(0).datagrams();
  int group = -1;
  EXPECT_EQ(mine.join(kId, 0, &group).code, Code::invalid_argument);
  ASSERT_TRUE(mine.join(kId, 1, &group).ok());
  EXPECT_EQ(mine.join(kId, 1, &group).code, Code::invalid_argument);
  std::vector<std::byte> large(world->fabric(0).traits().datagram_bytes + 1);
  EXPECT_EQ(mine.cast(group, large.data(), large.size()).code, Code::truncated);
  EXPECT_EQ(mine.cast(group + 1, large.data(), 1).code, Code::invalid_argument);
  mine.leave(group);
  EXPECT_EQ(mine.cast(group, large.data(), 1).code, Code::invalid_argument);
}

}  // namespace
}  // namespace tutti::sim
