// The trees of cells: what the members of a team make of where each of them runs, each for itself.
#include "team/cell_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "coll/pattern/tree.hpp"
#include "topo/topo.hpp"

namespace tutti {
namespace {

std::vector<Locality> on(const char* machine, int ranks) {
  MadeUpMachine made_up;
  EXPECT_TRUE(MadeUpMachine::parse(machine, &made_up).ok()) << machine;
  std::vector<Locality> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(made_up.locality_of(rank));
  return places;
}

/// All members' views of one tree.
std::vector<CellTree> views(int degree, const std::vector<Locality>& places) {
  const PlacedMembers all = PlacedMembers::by_locality(places);
  std::vector<CellTree> trees;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    trees.emplace_back(static_cast<int>(rank), degree, all);
  return trees;
}

/// The members of a subtree in the order in which a fold meets them.
void append_subtree(const std::vector<CellTree>& trees, int member, std::vector<int>* out) {
  out->push_back(member);
  const CellTree& tree = trees[static_cast<std::size_t>(member)];
  for (int i = 0; tree.child(i) >= 0; ++i) append_subtree(trees, tree.child(i), out);
}

void expect_one_tree(const std::vector<CellTree>& trees, const PlacedMembers& all) {
  const auto size = static_cast<int>(trees.size());
  for (int rank = 0; rank < size; ++rank) {
    const CellTree& tree = trees[static_cast<std::size_t>(rank)];
    EXPECT_EQ(tree.parent() < 0, rank == 0);
    for (int i = 0; tree.child(i) >= 0; ++i)
      EXPECT_EQ(trees[static_cast<std::size_t>(tree.child(i))].parent(), rank);
  }
  std::vector<int> folded;
  append_subtree(trees, 0, &folded);
  EXPECT_EQ(folded, all.members);  // everybody, in the order of the tree
  for (int root = 0; root < size; ++root) {
    for (int rank = 0; rank < size; ++rank) {
      int at = rank, steps = 0;
      while (at >= 0 && at != root && ++steps <= size)
        at = trees[static_cast<std::size_t>(at)].towards(root);
      EXPECT_EQ(at, root) << "from " << rank;
    }
    EXPECT_EQ(trees[static_cast<std::size_t>(root)].towards(root), -1);
  }
}

TEST(CellTree, IsOneTreeForAllWhereverTheyRun) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const auto below = [&random](unsigned most) { return static_cast<int>(random() % most); };
    const int parts = 1 + below(4);
    std::vector<Locality> places(static_cast<std::size_t>(1 + below(40)));
    for (Locality& place : places) {
      // Some may run anywhere, or anywhere within a package or a domain.
      const int cache = below(8 * static_cast<unsigned>(parts));
      place = {static_cast<std::int16_t>(cache / 8), static_cast<std::int16_t>(cache / 4),
               static_cast<std::int16_t>(cache)};
      if (below(4) == 0) place.cache = -1;
      if (below(8) == 0) place.numa = place.cache = -1;
      if (below(16) == 0) place = {};
    }
    expect_one_tree(views(1 + below(7), places), PlacedMembers::by_locality(places));
    if (HasFailure()) return;
  }
}

TEST(CellTree, IsThePapersWhereNothingIsKnown) {
  for (const int size : {1, 2, 9, 40}) {
    for (const int degree : {1, 3, 7}) {
      const auto trees = views(degree, std::vector<Locality>(static_cast<std::size_t>(size)));
      for (int rank = 0; rank < size; ++rank) {
        const CellTree& tree = trees[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(tree.in_rank_order());
        EXPECT_EQ(tree.parent(), DegreeTree(rank, size, degree).parent());
      }
    }
  }
}

/// Edges between members whose `part` differs.
template <class Part>
std::ptrdiff_t edges_out(const std::vector<CellTree>& trees, const std::vector<Locality>& places,
                         Part Locality::*part) {
  std::ptrdiff_t count = 0;
  for (std::size_t rank = 1; rank < trees.size(); ++rank) {
    const auto parent = static_cast<std::size_t>(trees[rank].parent());
    count += places[rank].*part != places[parent].*part;
  }
  return count;
}

TEST(CellTree, LeavesEachPartOnce) {
  for (const char* machine :
       {"package:2 l3:12 core:8", "package:2 numa:4 l3:2 core:8 scattered", "numa:4 core:16"}) {
    for (const int ranks : {5, 33, 128}) {
      const auto places = on(machine, ranks);
      const auto trees = views(3, places);
      const auto parts = [&places](std::int16_t Locality::*part) {
        std::set<std::int16_t> all;
        for (const Locality& place : places) all.insert(place.*part);
        return static_cast<std::ptrdiff_t>(all.size()) - 1;
      };
      EXPECT_EQ(edges_out(trees, places, &Locality::package), parts(&Locality::package));
      EXPECT_EQ(edges_out(trees, places, &Locality::numa), parts(&Locality::numa));
      EXPECT_EQ(edges_out(trees, places, &Locality::cache), parts(&Locality::cache));
    }
  }
}

TEST(CellTree, KeepsTheOrderOfRanksWhereLaunchersDo) {
  EXPECT_TRUE(PlacedMembers::by_locality(on("package:2 l3:4 core:8", 64)).in_rank_order);
  EXPECT_FALSE(PlacedMembers::by_locality(on("package:2 l3:4 core:8 scattered", 64)).in_rank_order);
  // The second package first: the parts' numbers say nothing.
  EXPECT_TRUE(PlacedMembers::by_locality({{1, 1, 8}, {1, 1, 8}, {0, 0, 0}}).in_rank_order);
  EXPECT_EQ(PlacedMembers::by_locality({{1, 1, 8}, {0, 0, 0}, {1, 1, 8}}).members,
            (std::vector<int>{0, 2, 1}));
}

}  // namespace
}  // namespace tutti
