// The mapping of APPs to DCPs, and how many each node gets.
#include "offload/mapping.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::offload {
namespace {

using Ranks = std::vector<std::int32_t>;

TEST(Ratio, IsReadAndRefused) {
  Ratio ratio;
  std::string message;
  EXPECT_TRUE(parse_ratio("1", &ratio, &message).ok());
  EXPECT_EQ(ratio.processors, 1);
  EXPECT_EQ(ratio.per, 0);
  EXPECT_TRUE(parse_ratio("2:16", &ratio, &message).ok());
  EXPECT_EQ(ratio.processors, 2);
  EXPECT_EQ(ratio.per, 16);
  for (const char* wrong : {"", "0", "1:", "1:0", ":4", "1:4:2", "1:4x", "-1", "a", "1 :4"}) {
    message.clear();
    EXPECT_FALSE(parse_ratio(wrong, &ratio, &message).ok()) << wrong;
    EXPECT_NE(message.find("expected"), std::string::npos) << wrong;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(ratio.per, 16) << "set only on success";
}

TEST(ProcessorsOfNodes, FollowTheRatioEvenly) {
  EXPECT_EQ(processors_of_nodes({1, 0}, {4, 4, 2}), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(processors_of_nodes({1, 4}, {8}), (std::vector<int>{2}));
  EXPECT_EQ(processors_of_nodes({1, 4}, {4, 4, 4, 4}), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(processors_of_nodes({1, 512}, {4, 4}), (std::vector<int>{1, 0}));
  const auto few = processors_of_nodes({1, 8}, {4, 4, 4, 4});
  EXPECT_EQ(few[0] + few[1], 1);
  EXPECT_EQ(few[2] + few[3], 1);
  EXPECT_EQ(processors_of_nodes({1, 4}, {3}), (std::vector<int>{1}));
}

TEST(MapApps, ServesOnTheOwnNodeEvenly) {
  // Two nodes with four APPs and two DCPs each; DCPs come last in the job.
  const Ranks node_of = {0, 0, 0, 0, 7, 7, 7, 7, 0, 0, 7, 7};
  EXPECT_EQ(map_apps(node_of, 8), (Ranks{8, 8, 9, 9, 10, 10, 11, 11}));
}

TEST(MapApps, SpreadsNodesWithoutOne) {
  const Ranks node_of = {0, 0, 1, 1, 2, 2, 0, 1};
  EXPECT_EQ(map_apps(node_of, 6), (Ranks{6, 6, 7, 7, 6, 7}));
}

TEST(MapApps, BalancesWhatDoesNotDivide) {
  const Ranks node_of = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const Ranks map = map_apps(node_of, 7);  // 7 APPs, 3 DCPs
  for (const std::int32_t processor : {7, 8, 9}) {
    const auto served = std::count(map.begin(), map.end(), processor);
    EXPECT_TRUE(served == 2 || served == 3) << processor;
  }
}

TEST(Among, AsFewAsTheRatioAllows) {
  struct Case {
    Ratio ratio;
    std::vector<int> processes, taken;
    bool even;
  };
  const Case cases[] = {
      {{1, 4}, {10}, {2}, true},
      {{1, 4}, {5}, {1}, true},
      {{1, 4}, {9}, {2}, false},
      {{1, 4}, {2}, {1}, false},
      {{2, 6}, {16}, {4}, true},
      {{1, 0}, {3}, {1}, true},
      {{1, 0}, {4, 4}, {1, 1}, true},
      {{2, 0}, {2}, {1}, false},
      {{1, 0}, {1, 3}, {0, 1}, false},
      {{1, 4}, {5, 5, 5, 5}, {1, 1, 1, 1}, true},
      {{1, 9}, {5, 5, 5, 5}, {1, 0, 1, 0}, true},
      {{4, 1}, {5, 1}, {4, 0}, false},
      {{1, 1}, {1, 7}, {0, 4}, true},
      {{1, 1}, {7, 1}, {4, 0}, true},
  };
  for (const Case& one : cases) {
    std::vector<int> taken;
    bool even = !one.even;
    std::string message;
    ASSERT_TRUE(processors_among(one.ratio, one.processes, &taken, &even, &message).ok());
    EXPECT_EQ(taken, one.taken) << one.ratio.processors << ':' << one.ratio.per;
    EXPECT_EQ(even, one.even) << one.ratio.processors << ':' << one.ratio.per;
    EXPECT_TRUE(message.empty());
  }
}

TEST(Among, SomethingIsAlwaysLeftForTheProgram) {
  for (int processes = 2; processes < 40; ++processes) {
    for (const Ratio ratio : {Ratio{1, 0}, Ratio{7, 0}, Ratio{1, 1}, Ratio{9, 1}, Ratio{1, 8}}) {
      std::vector<int> taken;
      bool even = false;
      std::string message;
      ASSERT_TRUE(processors_among(ratio, {processes}, &taken, &even, &message).ok());
      EXPECT_GE(taken[0], 1);
      EXPECT_LT(taken[0], processes);
    }
  }
}

TEST(Among, OneProcessOnEachNodeIsRefused) {
  for (const std::vector<int>& processes : {std::vector<int>{1}, std::vector<int>{1, 1, 1}}) {
    std::vector<int> taken{7};
    bool even = false;
    std::string message;
    EXPECT_FALSE(processors_among({1, 4}, processes, &taken, &even, &message).ok());
    EXPECT_NE(message.find("start more"), std::string::npos);
    EXPECT_EQ(taken, std::vector<int>{7}) << "set only on success";
  }
}

}  // namespace
}  // namespace tutti::offload
