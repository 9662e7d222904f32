// Broadcast by IP multicast over sockets of the loopback, ranks as threads: one on each node, and
// several on some.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coll/multicast_bodies.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::broadcast;
using test::Rank;

Settings settings_of(const std::string& algorithm) {
  Settings settings;
  settings.algorithm = algorithm;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 30;
  settings.net_interface = "lo";
  settings.multicast = Switch::on;
  return settings;
}

class MulticastNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(MulticastNodes, EveryByteArrives) {
  const std::vector<std::vector<int>> layouts = {
      {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6}, {0, 0, 1, 1, 2}, {2, 0, 1, 0, 2, 1, 0}};
  for (const auto& layout : layouts) {
    test::run_nodes(layout, settings_of(GetParam()), [](Rank& r) {
      int round = 0;
      for (const std::size_t bytes : {1, 60, 2024, 2048, 2049, 8000, 8192}) {
        for (int root = 0; root < r.size; ++root) {
          broadcast(r, root, bytes, ++round);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
      // Back to back from one root, which nobody holds up.
      for (int i = 0; i < 200; ++i) broadcast(r, 0, 100, ++round);
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST(MulticastTeams, AllgatherAndAllreduceCastTheirBlocks) {
  test::run_nodes({0, 1, 2, 3}, settings_of("allgather=multicast,allreduce=multicast"),
                  test::cast_blocks);
}

class WindowNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(WindowNodes, EveryByteArrives) {
  for (const auto& layout :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 2, 3, 4}, {2, 0, 1, 0, 2, 1, 0}}) {
    test::run_nodes(layout, settings_of(GetParam()), [](Rank& r) {
      int round = 0;
      for (const std::size_t bytes : {1, 9000, 214'000, 215'001, 1'000'000, 3'000'001}) {
        for (const int root : {0, r.size - 1}) {
          broadcast(r, root, bytes, ++round);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
      // Back to back, and small ones in between.
      for (int i = 0; i < 10; ++i) {
        broadcast(r, 0, 100'000, ++round);
        broadcast(r, i % r.size, 100, ++round);
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, WindowNodes,
                         ::testing::Values("bcast=multicast_window",
                                           "bcast=multicast_window:window=24:pace=500"),
                         [](const auto& one) { return one.index == 0 ? "Wide" : "Narrow"; });

std::string name_of(const ::testing::TestParamInfo<const char*>& one) {
  const char* const names[] = {"Chords", "Ring", "CoRootAck", "Nack"};
  return names[one.index];
}

INSTANTIATE_TEST_SUITE_P(All, MulticastNodes,
                         ::testing::Values("bcast=multicast:chords=32", "bcast=multicast",
                                           "bcast=multicast_coroot_ack:timeout=20000",
                                           "bcast=multicast_nack:timeout=20000"),
                         name_of);

TEST(MulticastTeams, IsWhatRuns) {
  test::run_nodes({0, 1, 2}, settings_of("bcast=multicast"), [](Rank& r) {
    Call call;
    call.coll = Coll::bcast;
    call.bytes = 100;
    EXPECT_STREQ(r.job.algorithm(r.team, call), "multicast");
    call.bytes = std::size_t{1} << 20;
    EXPECT_STRNE(r.job.algorithm(r.team, call), "multicast");
    broadcast(r, 1, 100, 1);
    EXPECT_EQ(r.team.multicast().counts().damaged, 0U);
    EXPECT_TRUE(r.team.multicast().joined().ok());
  });
}

TEST(MulticastTeams, ManyTeamsHaveGroupsOfTheirOwn) {
  test::run_nodes({0, 1, 2}, settings_of("bcast=multicast"), [](Rank& r) {
    const std::int32_t members[] = {0, 1, 2};
    for (std::uint64_t i = 0; i < 30; ++i) {
      Team* team = nullptr;
      ASSERT_TRUE(r.job.create_team(TeamSpec{{77, i}, r.rank, 3, members}, &team).ok());
      Rank view{r.rank, r.size, r.job, *team};
      broadcast(view, static_cast<int>(i % 3), 500, static_cast<int>(i));
      broadcast(r, 0, 500, static_cast<int>(i));
      if (i % 8 == 0) broadcast(view, 1, 300'000, static_cast<int>(i));
      r.job.release_team(team);
    }
  });
}

}  // namespace
}  // namespace tutti
