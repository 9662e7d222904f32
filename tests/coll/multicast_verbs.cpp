// Collectives by UD multicast, ranks as threads on four RDMA devices with the interfaces e0 to e3:
// in the virtual machine of tests/verbs-vm.
#include <gtest/gtest.h>

#include <string>

#include "coll/multicast_bodies.hpp"
#include "fabric/verbs/verbs.hpp"

namespace tutti::test {
namespace {

constexpr int kDevices = 4;

Status open_verbs(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                  std::string* message) {
  Settings own = settings;
  own.net_interface = std::string("e").append(std::to_string(rank % kDevices));
  return verbs::VerbsNetwork::open(own, out, message);
}

// Each rank loses and damages datagrams of its own. What is damaged here has passed the network's
// checksum.
constexpr const char* kLosses =
    "drop:op=receive:at=2:every=3:count=0:rank=1,corrupt:op=receive:at=3:every=7:count=0:rank=2,"
    "drop:op=receive:at=1:every=2:count=0:rank=3,drop:op=cast:at=5:every=9:count=0:rank=0,"
    "duplicate:op=cast:at=2:every=5:count=0:rank=1";
constexpr const char* kDeaf = "drop:op=receive:count=0";

Settings settings_of(const std::string& algorithm, const std::string& faults) {
  Settings settings;
  settings.algorithm = algorithm;
  settings.fault = faults;
  settings.arena = std::size_t{32} << 20;
  settings.ring = std::size_t{1} << 20;
  settings.deadline_s = 60;
  settings.multicast = Switch::on;
  return settings;
}

struct Loss {
  const char* name;
  const char* faults;
};
class VerbsMulticast : public ::testing::TestWithParam<Loss> {};
INSTANTIATE_TEST_SUITE_P(All, VerbsMulticast,
                         ::testing::Values(Loss{"None", ""}, Loss{"Some", kLosses},
                                           Loss{"Everything", kDeaf}),
                         [](const auto& one) { return one.param.name; });

TEST_P(VerbsMulticast, ShortMessages) {
  run_nodes(
      {0, 1, 2, 3}, settings_of("bcast=multicast", GetParam().faults),
      [](Rank& r) {
        int round = 0;
        for (const std::size_t bytes : {1, 60, 2048, 4056, 4057, 8192}) {
          for (int root = 0; root < r.size; ++root) {
            broadcast(r, root, bytes, ++round);
            if (HasFatalFailure()) return;
          }
        }
        // Back to back from one root, which nobody holds up: more than there are receives for.
        for (int i = 0; i < 50; ++i) broadcast(r, 0, 100, ++round);
        // The arrivals were datagrams, and none of them strange; what is lost is repaired.
        const auto& counts = r.team.multicast().counts();
        EXPECT_TRUE(r.team.multicast().joined().ok());
        EXPECT_EQ(r.team.multicast().datagram_counts().foreign, 0U);
        const std::string faults = GetParam().faults;
        if (faults == kDeaf) {
          EXPECT_EQ(counts.taken, 0U);
        } else {
          EXPECT_GT(counts.taken, 0U);
        }
        if (faults == kLosses && r.rank == 2) {
          EXPECT_GT(counts.damaged, 0U);
        }
        if (faults == kLosses && r.rank == 3) {
          EXPECT_GT(counts.repaired, 0U);
        }
      },
      open_verbs);
}

TEST_P(VerbsMulticast, WindowsOfLongMessages) {
  run_nodes(
      {0, 1, 2, 3}, settings_of("bcast=multicast_window", GetParam().faults),
      [](Rank& r) {
        int round = 0;
        for (const std::size_t bytes : {1, 9000, 400'001, 1'000'000}) {
          broadcast(r, round % r.size, bytes, round + 1);
          ++round;
          if (HasFatalFailure()) return;
        }
      },
      open_verbs);
}

TEST(VerbsMulticastTeams, AllgatherAndAllreduceCastTheirBlocks) {
  run_nodes({0, 1, 2, 3}, settings_of("allgather=multicast,allreduce=multicast", ""), cast_blocks,
            open_verbs);
}

TEST(VerbsMulticastTeams, RanksOfANodeShareOneReceiver) {
  run_nodes(
      {0, 0, 1, 1, 2}, settings_of("bcast=multicast", ""),
      [](Rank& r) {
        for (int root = 0; root < r.size; ++root) broadcast(r, root, 5000, root);
      },
      open_verbs);
}

TEST(VerbsMulticastTeams, ManyTeamsHaveGroupsOfTheirOwn) {
  run_nodes(
      {0, 1, 2, 3}, settings_of("bcast=multicast", ""),
      [](Rank& r) {
        const std::int32_t members[] = {0, 1, 2, 3};
        for (std::uint64_t i = 0; i < 8; ++i) {
          Team* team = nullptr;
          ASSERT_TRUE(r.job.create_team(TeamSpec{{77, i}, r.rank, 4, members}, &team).ok());
          Rank view{r.rank, r.size, r.job, *team};
          broadcast(view, static_cast<int>(i % 4), 500, static_cast<int>(i));
          broadcast(r, 0, 500, static_cast<int>(i));
          r.job.release_team(team);
        }
      },
      open_verbs);
}

}  // namespace
}  // namespace tutti::test
