// Every collective with every algorithm of the list that can run in the simulation, payload
// carried, against the serial model: 1 to 300 ranks, on nodes of one and of several processes, and
// all on one node, also one of several caches.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "profile.hpp"
#include "sim/job.hpp"
#include "support/collective_model.hpp"

namespace tutti::sim {
namespace {

using tutti::test::Case;
using tutti::test::Combination;
using tutti::test::Model;

struct Layout {
  int nodes;
  int ranks_per_node;
  const char* profile = "via2003";
};

// Every number up to 9, then around powers of two and of the degrees' bases, and up to 300.
const std::vector<int> kRanks = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65, 300};
const std::vector<Layout> kClusters = {{2, 2}, {3, 2}, {5, 3}, {7, 4}, {30, 10}};
// A node of several caches: an algorithm may follow them.
const std::vector<Layout> kMachines = {{1, 16, "epyc9654"}, {1, 32, "epyc9654"}};
const std::vector<std::size_t> kCounts = {0, 1, 254, 256, 1279, 1281};

class Simulated : public ::testing::TestWithParam<Combination> {};

Choice parse(const Combination& combination) {
  Forced forced;
  std::string message;
  EXPECT_TRUE(Forced::parse(combination.forced, &forced, &message).ok()) << message;
  return *forced.of(combination.algorithm->coll);
}

void run_case(SimJob& job, const Choice& choice, const Model& model, bool in_place, int* ran) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  std::vector<Case> cases;
  for (int rank = 0; rank < job.size(); ++rank)
    cases.emplace_back(model, rank, in_place, reduction);
  if (job.restriction(choice, cases[0].call) != nullptr) return;
  ++*ran;
  std::string message;
  const Status status = job.run(
      choice, [&](int rank) { return cases[static_cast<std::size_t>(rank)].call; }, 1, &message);
  ASSERT_TRUE(status.ok()) << message << "; " << job.size() << " ranks, root " << model.root()
                           << ", count " << model.count() << (in_place ? " in place" : "");
  for (int rank = 0; rank < job.size(); ++rank) {
    const auto expected = model.expected(rank);
    ASSERT_EQ(cases[static_cast<std::size_t>(rank)].result(expected.size()), expected)
        << "rank " << rank << " of " << job.size() << " root " << model.root() << " count "
        << model.count() << (in_place ? " in place" : "");
  }
}

/// All sizes, some roots, in place and not, one after the other on one job, so that blocks are
/// reused.
int run_layout(const Layout& layout, const Choice& choice) {
  JobSpec spec{layout.nodes, layout.ranks_per_node, test::profile(layout.profile), false};
  spec.hierarchical = SimJob::needs_layers(choice, layout.nodes, layout.ranks_per_node);
  std::unique_ptr<SimJob> job;
  std::string message;
  EXPECT_TRUE(SimJob::create(spec, &job, &message).ok()) << message;
  if (!job) return 0;
  const Coll coll = choice.algorithm->coll;
  // A message for each pair of ranks: more ranks would take minutes and show nothing new.
  const bool pairs = coll == Coll::alltoall || coll == Coll::reduce_scatter_block ||
                     coll == Coll::reduce_scatter || coll == Coll::scatter || has_parcels(coll);
  if (pairs && job->size() > 65) return 0;
  std::uint64_t round = 0;
  int ran = 0;
  for (const std::size_t count : kCounts) {
    if (count > 0 && job->size() * count > 100'000) continue;
    for (const int root : tutti::test::roots(coll, job->size(), round)) {
      const bool in_place = ++round % 2 == 0;
      run_case(*job, choice, Model(coll, job->size(), root, count, round), in_place, &ran);
      if (::testing::Test::HasFatalFailure()) return ran;
    }
  }
  return ran;
}

TEST_P(Simulated, MatchesTheModel) {
  const Choice choice = parse(GetParam());
  int ran = 0;
  for (const int ranks : kRanks) {
    const bool several_nodes = ranks > 1;
    if (several_nodes) ran += run_layout({ranks, 1}, choice);
    if (!HasFatalFailure() && ranks <= 17) ran += run_layout({1, ranks}, choice);
    ASSERT_FALSE(HasFatalFailure()) << ranks << " ranks";
  }
  for (const auto* layouts : {&kClusters, &kMachines}) {
    for (const Layout& layout : *layouts) {
      ran += run_layout(layout, choice);
      ASSERT_FALSE(HasFatalFailure()) << layout.nodes << " nodes of " << layout.ranks_per_node;
    }
  }
  EXPECT_GT(ran, 0) << "no case could run: nothing was tested";
}

/// All but those that need dedicated processors beside the ranks (tests/offload).
std::vector<tutti::test::Combination> combinations() {
  auto all = tutti::test::combinations();
  std::erase_if(all, [](const auto& combination) {
    return std::string_view(combination.forced).ends_with("=dcp");
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Simulated, ::testing::ValuesIn(combinations()),
                         [](const auto& combination) {
                           std::string text = combination.param.forced;
                           for (char& c : text) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return text;
                         });

}  // namespace
}  // namespace tutti::sim
