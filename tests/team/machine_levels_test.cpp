// How members are divided evenly along the machine.
#include "team/machine_levels.hpp"

#include <gtest/gtest.h>

#include <set>

#include "topo/topo.hpp"

namespace tutti {
namespace {

PlacedMembers on(const char* machine, int ranks) {
  MadeUpMachine made_up;
  EXPECT_TRUE(MadeUpMachine::parse(machine, &made_up).ok()) << machine;
  std::vector<Locality> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(made_up.locality_of(rank));
  return PlacedMembers::by_locality(std::move(places));
}

std::vector<int> radices(const PlacedMembers& all) {
  const MachineLevels levels(0, all);
  std::vector<int> found;
  for (int level = 0; level < levels.count(); ++level) found.push_back(levels.radix(level));
  return found;
}

using Radices = std::vector<int>;

TEST(MachineLevels, AreThosePartsThatDivideEvenly) {
  EXPECT_EQ(radices(on("package:2 l3:12 core:8", 192)), Radices({8, 12, 2}));
  EXPECT_EQ(radices(on("package:2 l3:12 core:8", 128)), Radices({8, 16}));  // 12 caches, and 4
  EXPECT_EQ(radices(on("package:2 l3:12 core:8 scattered", 128)), Radices({8, 8, 2}));
  EXPECT_EQ(radices(on("package:2 numa:2 l3:2 core:2", 16)), Radices({2, 2, 2, 2}));
  EXPECT_EQ(radices(on("package:2 core:1", 2)), Radices({2}));
  EXPECT_EQ(radices(on("package:2 l3:4 core:8", 33)), Radices({33}));
  EXPECT_EQ(radices(on("package:2 l3:4 core:8", 36)), Radices({36}));
  EXPECT_EQ(radices(on("core:16", 16)), Radices({16}));
  EXPECT_EQ(radices(PlacedMembers::by_rank(12)), Radices({12}));
  EXPECT_EQ(radices(PlacedMembers::by_rank(1)), Radices());
}

TEST(MachineLevels, PeersAgreeAndRunWhereTheLevelSays) {
  for (const char* machine : {"package:2 numa:2 l3:2 core:3", "package:2 l3:4 core:3 scattered"}) {
    const PlacedMembers all = on(machine, 24);
    std::vector<MachineLevels> views;
    for (int rank = 0; rank < 24; ++rank) views.emplace_back(rank, all);
    std::vector<Locality> places(24);
    for (std::size_t at = 0; at < 24; ++at)
      places[static_cast<std::size_t>(all.members[at])] = all.places[at];
    for (int rank = 0; rank < 24; ++rank) {
      const MachineLevels& mine = views[static_cast<std::size_t>(rank)];
      EXPECT_EQ(mine.in_rank_order(), all.in_rank_order);
      for (int level = 0; level < mine.count(); ++level) {
        std::set<int> peers;
        for (int place = 0; place < mine.radix(level); ++place) {
          const int peer = mine.peer(level, place);
          peers.insert(peer);
          const MachineLevels& theirs = views[static_cast<std::size_t>(peer)];
          EXPECT_EQ(theirs.place(level), place);
          EXPECT_EQ(theirs.peer(level, mine.place(level)), rank);
          const bool one_cache =
              places[static_cast<std::size_t>(peer)] == places[static_cast<std::size_t>(rank)];
          EXPECT_EQ(level == 0 || peer == rank, one_cache);
        }
        EXPECT_EQ(static_cast<int>(peers.size()), mine.radix(level));
        EXPECT_EQ(mine.peer(level, mine.place(level)), rank);
      }
    }
  }
}

}  // namespace
}  // namespace tutti
