// Cache lines of a coherent node: their costs, and how many of them collectives move.
#include "fabric/sim/lines.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>

#include "profile.hpp"
#include "sim/job.hpp"
#include "support/collective_model.hpp"

namespace tutti::sim {
namespace {

CoherentNode small_node() {
  CoherentNode node;
  node.l3 = 2;
  node.numa = 4;
  node.package = 8;
  node.line_l3 = 10;
  node.line_numa = 30;
  node.line_package = 60;
  node.line_far = 200;
  node.serve = 5;
  node.follow = 3;
  return node;
}

alignas(64) std::byte memory[256];

TEST(Lines, CostWhatTheDistanceCosts) {
  const Lines lines(small_node(), 16);
  EXPECT_EQ(lines.distance(3, 3), 0u);
  EXPECT_EQ(lines.distance(0, 1), 10u);
  EXPECT_EQ(lines.distance(1, 2), 30u);
  EXPECT_EQ(lines.distance(3, 4), 60u);
  EXPECT_EQ(lines.distance(7, 8), 200u);
  EXPECT_EQ(lines.distance(16, 17), 10u);  // the first two cores of the next node
}

TEST(Lines, ReadersAreServedOneAfterTheOther) {
  Lines lines(small_node(), 16);
  EXPECT_EQ(lines.write(memory, 0, 100), 100u);  // nobody has a copy
  EXPECT_EQ(lines.read(memory, 1, 100), 110u);
  EXPECT_EQ(lines.read(memory, 2, 100), 135u);  // 5 later
  EXPECT_EQ(lines.read(memory, 2, 500), 500u);  // has it
  EXPECT_EQ(lines.read(memory, 0, 500), 500u);  // has written it
  EXPECT_EQ(lines.copies(), 2u);
  // The copies must go before the next value is seen.
  EXPECT_EQ(lines.write(memory, 0, 600), 630u);
  EXPECT_EQ(lines.read(memory, 1, 600), 640u);
  EXPECT_EQ(lines.most_by_one(), 2u);
}

TEST(Lines, FollowEachOther) {
  Lines lines(small_node(), 16);
  for (int line = 0; line < 3; ++line) lines.write(memory + 64 * line, 0, 0);
  EXPECT_EQ(lines.read_all(memory + 60, 100, 1, 100), 116u);  // three lines, 3 apart
  EXPECT_EQ(lines.copies(), 3u);
}

TEST(Lines, ShareTheWaysOutOfACacheAndBetweenPackages) {
  constexpr Time kCount = 256, kCache = 40, kPackage = 100;
  alignas(64) static std::byte data[64 * kCount];
  CoherentNode node = small_node();
  node.way_cache = kCache;
  node.way_package = kPackage;
  Lines lines(node, 16);
  lines.write_all(data, sizeof data, 0, 0);
  const auto takes = [&](int reader, Time time) {
    return static_cast<double>(lines.read_all(data, sizeof data, reader, time) - time);
  };
  const auto near = [](Time way) { return static_cast<double>(20 * way); };
  EXPECT_EQ(takes(1, 10'000), (kCount - 1) * node.follow + node.line_l3);
  EXPECT_NEAR(takes(2, 20'000), kCount * kCache, near(kCache));
  EXPECT_NEAR(takes(8, 50'000), kCount * kPackage, near(kPackage));
  // Two that read at the same time: the way out is one, those in are two.
  takes(4, 90'000);
  EXPECT_NEAR(takes(6, 90'000), 2 * kCount * kCache, near(kCache));
}

TEST(Ways, ServeTheFirstWhoeverAsksFirst) {
  Way way;
  constexpr Time kEach = 50;
  EXPECT_EQ(way.pass(10'000, kEach), 10'000u);
  EXPECT_EQ(way.pass(1'000, kEach), 1'000u);
  // What there is no room for goes later, in turn.
  for (Time i = 0; i < 100; ++i) way.pass(20'000, kEach);
  EXPECT_NEAR(static_cast<double>(way.pass(20'000, kEach)), 25'000, 20 * kEach);
  EXPECT_EQ(way.pass(18'000, kEach), 18'000u);
}

TEST(Lines, ScatteredRanksAreDealtOutToThePackages) {
  const Lines lines(small_node(), 12, true);
  EXPECT_EQ(lines.locality_of(0), (Locality{0, 0, 0}));
  EXPECT_EQ(lines.locality_of(1), (Locality{1, 2, 8}));
  EXPECT_EQ(lines.locality_of(11), (Locality{1, 3, 12}));
  EXPECT_EQ(lines.distance(0, 1), 200u);
  EXPECT_EQ(lines.distance(0, 2), 10u);
}

struct Moved {
  double copies, busiest, far;  // a call
  Time time;
};

/// On what, and how it is asked for.
struct Node {
  int ranks;
  bool scattered = false;
  bool commutative = true;
  const char* profile = "epyc9654";
};

/// What a call of 8 bytes moves on one node, the mean of many back to back. `algorithm`: as
/// TUTTI_ALG has it; what the rules choose where it is empty.
Moved moved(Coll coll, const std::string& algorithm, const Node& node) {
  constexpr int kCalls = 256;
  std::unique_ptr<SimJob> job;
  std::string message;
  JobSpec spec{1, node.ranks, test::profile(node.profile), false};
  spec.scattered = node.scattered;
  EXPECT_TRUE(SimJob::create(spec, &job, &message).ok()) << message;
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::f64, &reduction));
  reduction.commutative = node.commutative;
  std::vector<double> in(static_cast<std::size_t>(node.ranks), 1.0), out(in);
  const auto call = [&](int rank) {
    Call one;
    one.coll = coll;
    one.bytes = coll == Coll::barrier ? 0 : sizeof(double);
    one.reduction = &reduction;
    one.send = &in[static_cast<std::size_t>(rank)];
    one.recv = &out[static_cast<std::size_t>(rank)];
    return one;
  };
  Forced forced;
  const std::string text = std::string(name(coll)) + "=" + algorithm;
  EXPECT_TRUE(algorithm.empty() || Forced::parse(text, &forced, &message).ok()) << message;
  job->dispatcher().choices(job->team(0));
  const Choice choice =
      algorithm.empty() ? Dispatcher::choice(job->team(0), call(0)) : *forced.of(coll);
  EXPECT_TRUE(job->run(choice, call, 1, &message).ok()) << message;  // they meet
  job->align();
  job->world().lines().forget_counts();
  EXPECT_TRUE(job->run(choice, call, kCalls, &message).ok()) << message;
  EXPECT_TRUE(coll != Coll::allreduce || out.back() == node.ranks) << out.back();
  const Lines& lines = job->world().lines();
  return {static_cast<double>(lines.copies()) / kCalls,
          static_cast<double>(lines.most_by_one()) / kCalls,
          static_cast<double>(lines.far_copies()) / kCalls, job->duration() / kCalls};
}

class LargeNode : public ::testing::TestWithParam<Coll> {};

TEST_P(LargeNode, NobodyMovesMoreThanAFewLinesPerStep) {
  for (const int ranks : {8, 32, 128, 192}) {
    for (const bool scattered : {false, true}) {
      const Moved chosen = moved(GetParam(), "", {ranks, scattered});
      const auto steps = static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1)));
      // Three children in each of log4 P steps and the parent, some of them also a moment too
      // early, and now and then whether they are through with their cells.
      EXPECT_LE(chosen.busiest, 3 * steps) << ranks << " ranks";
      EXPECT_LE(chosen.copies, ranks == 8 ? ranks * ranks : 3 * ranks) << ranks << " ranks";
    }
  }
}

TEST_P(LargeNode, TimeGrowsWithTheDepth) {
  const Time at_16 = moved(GetParam(), "tree:degree=3", {16}).time;
  const Time at_192 = moved(GetParam(), "tree:degree=3", {192}).time;
  EXPECT_LT(at_192, 6 * at_16);  // twice the depth, half of it between packages; 12 times the ranks
}

TEST_P(LargeNode, LeavesAPackageOnce) {
  for (const char* profile : {"epyc9654", "epyc7r13", "xeon8375c"}) {
    const Node scattered{64, true, true, profile};
    const Moved by_rank = moved(GetParam(), "tree:places=0", scattered);
    const Moved by_part = moved(GetParam(), "tree", scattered);
    EXPECT_GT(by_rank.far, 32) << profile;
    // Up and down one edge, now and then a moment too early, and the counters of two members.
    EXPECT_LE(by_part.far, 4) << profile;
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, LargeNode,
                         ::testing::Values(Coll::barrier, Coll::bcast, Coll::allreduce),
                         [](const auto& coll) { return std::string(name(coll.param)); });

TEST(LargeNodeOrder, IsKeptForOperatorsThatDoNotCommute) {
  const Moved ordered = moved(Coll::allreduce, "tree", {64, true, false});
  const Moved by_rank = moved(Coll::allreduce, "tree:places=0", {64, true});
  EXPECT_EQ(ordered.time, by_rank.time);
  // Where the ranks' order is that of the cores, they have the same tree.
  EXPECT_EQ(moved(Coll::allreduce, "tree", {64, false, false}).time,
            moved(Coll::allreduce, "tree", {64}).time);
}

/// One call of `count` elements, of everybody's block where there are blocks, whose result is
/// right.
struct Divided {
  std::uint64_t far = 0;      // lines that cross between packages
  std::uint64_t busiest = 0;  // lines that one rank asks for
  Time time = 0;
};

Divided divided(Coll coll, const std::string& algorithm, const Node& node, int root,
                std::size_t count) {
  std::unique_ptr<SimJob> job;
  std::string message;
  JobSpec spec{1, node.ranks, test::profile(node.profile), false};
  spec.scattered = node.scattered;
  EXPECT_TRUE(SimJob::create(spec, &job, &message).ok()) << message;
  Forced forced;
  EXPECT_TRUE(Forced::parse(std::string(name(coll)) + "=" + algorithm, &forced, &message).ok())
      << message;
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  const tutti::test::Model model(coll, node.ranks, root, count, 1);
  std::vector<tutti::test::Case> cases;
  for (int rank = 0; rank < node.ranks; ++rank) cases.emplace_back(model, rank, false, reduction);
  const auto call = [&](int rank) { return cases[static_cast<std::size_t>(rank)].call; };
  EXPECT_TRUE(job->run(*forced.of(coll), call, 1, &message).ok()) << message;
  for (int rank = 0; rank < node.ranks; ++rank) {
    const auto expected = model.expected(rank);
    EXPECT_TRUE(cases[static_cast<std::size_t>(rank)].result(expected.size()) == expected) << rank;
  }
  const Lines& lines = job->world().lines();
  return {lines.far_copies(), lines.most_by_one(), job->duration()};
}

TEST(LargeNodeDivided, BytesCrossBetweenPackagesOnce) {
  constexpr std::size_t kCount = 16384;  // 1,024 lines
  for (const bool scattered : {false, true}) {
    const Node node{scattered ? 64 : 192, scattered};
    const Divided nested = divided(Coll::allreduce, "nested", node, 0, kCount);
    const Divided before = divided(Coll::allreduce, "reduce_scatter_allgather", node, 0, kCount);
    // Each package gets half of the sums of the other, and then the other half of the result; each
    // rank asks for a part of a line more, and for two flags.
    EXPECT_LE(nested.far, 2 * 1024u + 4 * static_cast<unsigned>(node.ranks)) << node.ranks;
    EXPECT_GE(before.far, 16 * nested.far) << node.ranks;
    EXPECT_LT(2 * nested.time, before.time) << node.ranks;
  }
}

TEST(LargeNodeDivided, BytesLeaveTheRootsPackageOnceOrEnterItOnce) {
  constexpr std::size_t kCount = 16384;  // 1,024 lines
  for (const Coll coll : {Coll::bcast, Coll::reduce}) {
    for (const bool scattered : {false, true}) {
      const Node node{scattered ? 64 : 192, scattered};
      for (const int root : {0, node.ranks - 1}) {
        const Divided nested = divided(coll, "nested", node, root, kCount);
        const Divided before = divided(coll, "blocks", node, root, kCount);
        const std::string what = std::string(name(coll)) + " of " + std::to_string(node.ranks) +
                                 " ranks, root " + std::to_string(root);
        EXPECT_LE(nested.far, 1024u + 2 * static_cast<unsigned>(node.ranks)) << what;
        EXPECT_GE(before.far, 16 * nested.far) << what;
        EXPECT_LT(2 * nested.time, before.time) << what;
      }
    }
  }
}

TEST(LargeNodeDivided, BlocksCrossBetweenPackagesOnce) {
  constexpr std::size_t kCount = 256;  // 16 lines of each rank
  for (const bool scattered : {false, true}) {
    const Node node{scattered ? 64 : 192, scattered};
    const auto ranks = static_cast<unsigned>(node.ranks);
    const Divided nested = divided(Coll::allgather, "nested", node, 0, kCount);
    const Divided before = divided(Coll::allgather, "blocks", node, 0, kCount);
    // Each package gets those of the other.
    EXPECT_LE(nested.far, 16 * ranks + 2 * ranks) << node.ranks;
    EXPECT_GE(before.far, 16 * nested.far) << node.ranks;
    EXPECT_LT(nested.time, before.time) << node.ranks;
    // The root's package gets those of the other.
    const Divided gathered = divided(Coll::gather, "nested", node, node.ranks - 1, kCount);
    EXPECT_LE(gathered.far, 16 * ranks / 2 + 2 * ranks) << node.ranks;
  }
}

/// One call after the other: whether blocks may be used again is asked of those who have read them.
TEST(LargeNodeDivided, NobodyLooksAtAllMembers) {
  for (const Coll coll : {Coll::bcast, Coll::allreduce}) {
    const Moved nested = moved(coll, "nested", {192});
    // 19 peers, of whom some are asked for a flag and for data, on the way in and on the way out,
    // and for what they have read.
    EXPECT_LE(nested.busiest, 4 * 19) << name(coll);
  }
}

/// Of small blocks, a rank looks at few others, not at all of them.
TEST(LargeNodeDivided, BundlesComeFromFewPeers) {
  for (const Coll coll : {Coll::gather, Coll::alltoall}) {
    const Divided nested = divided(coll, "nested", {192}, 0, 1);
    const Divided before = divided(coll, "blocks", {192}, 0, 1);
    EXPECT_GE(before.busiest, 2 * 191u) << name(coll);
    EXPECT_LE(2 * nested.busiest, before.busiest) << name(coll);
    EXPECT_LT(2 * nested.time, before.time) << name(coll);
  }
}

TEST(LargeNodeFlat, EverybodyReadsEverybody) {
  const Moved flat = moved(Coll::allreduce, "flat", {128});
  EXPECT_GE(flat.busiest, 127);
  EXPECT_GE(flat.copies, 128 * 127);
  EXPECT_GT(flat.time, 4 * moved(Coll::allreduce, "tree:degree=3", {128}).time);
}

}  // namespace
}  // namespace tutti::sim
