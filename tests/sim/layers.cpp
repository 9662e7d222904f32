// Every algorithm that can run between the leaders of nodes, or on a node, inside every collective
// that is run in layers; and runs that cannot come to an end.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profile.hpp"
#include "sim/job.hpp"
#include "support/collective_model.hpp"

namespace tutti::sim {
namespace {

using tutti::test::Case;
using tutti::test::Combination;
using tutti::test::Model;

/// Whether it can run in a layer of three members: those of a node, or the leaders of three nodes.
bool runs_in_layer(const Combination& combination) {
  Forced forced;
  std::string message;
  if (!Forced::parse(combination.forced, &forced, &message).ok()) return false;
  const Choice& choice = *forced.of(combination.algorithm->coll);
  for (const bool mapped : {true, false}) {
    Shape shape;
    shape.coll = combination.algorithm->coll;
    shape.size = 3;
    shape.bytes = shape.longest_block = 64;
    shape.element_bytes = 4;
    shape.mapped = mapped;
    shape.mail = shape.acks = shape.segments = shape.alone = !mapped;
    shape.user_memory = true;
    shape.datagram = mapped ? 0 : 2048;
    shape.block_bytes = std::size_t{64} << 10;
    if (choice.algorithm->restriction(shape, choice.parameters) == nullptr) return true;
  }
  return false;
}

std::vector<Combination> in_layers() {
  auto all = tutti::test::combinations();
  std::erase_if(all, [](const Combination& combination) { return !runs_in_layer(combination); });
  return all;
}

/// The algorithms that run in layers, in the order of the list.
std::vector<Choice> hierarchical() {
  std::vector<Choice> all;
  for (const Algorithm* const one : algorithms()) {
    const Algorithm& algorithm = *one;
    const std::string name = algorithm.name;
    if (name.starts_with("hierarchical") || name == "lanes")
      all.push_back({&algorithm, algorithm.defaults()});
  }
  return all;
}

class InLayers : public ::testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    std::string message;
    spec_.hierarchical = true;
    ASSERT_TRUE(Forced::parse(GetParam().forced, &spec_.policy.forced, &message).ok()) << message;
    ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction_));
  }
  std::unique_ptr<SimJob> job_of(int nodes) {
    std::unique_ptr<SimJob> job;
    std::string message;
    spec_.nodes = nodes;
    EXPECT_TRUE(SimJob::create(spec_, &job, &message).ok()) << message;
    return job;
  }
  void run(SimJob& job, const Choice& choice, std::size_t count);

 private:
  JobSpec spec_{2, 2, test::profile("via2003"), false};
  Reduction reduction_;
  std::uint64_t round_ = 0;
};

void InLayers::run(SimJob& job, const Choice& choice, std::size_t count) {
  const Coll coll = choice.algorithm->coll;
  const int root = static_cast<int>(++round_) % job.size();
  const Model model(coll, job.size(), root, count, round_);
  std::vector<Case> cases;
  for (int rank = 0; rank < job.size(); ++rank)
    cases.emplace_back(model, rank, round_ % 2 == 0, reduction_);
  std::string message;
  const Status status = job.run(
      choice, [&](int rank) { return cases[static_cast<std::size_t>(rank)].call; }, 1, &message);
  ASSERT_TRUE(status.ok()) << message << "; " << name(coll) << ", " << job.size() << " ranks, root "
                           << root << ", count " << count;
  for (int rank = 0; rank < job.size(); ++rank) {
    const auto expected = model.expected(rank);
    ASSERT_EQ(cases[static_cast<std::size_t>(rank)].result(expected.size()), expected)
        << name(coll) << ", rank " << rank << " of " << job.size() << ", root " << root
        << ", count " << count;
  }
}

/// Each on a job of its own, again and again, and then all of them on one job, so that what has
/// been allocated before, and where, differs by rank.
TEST_P(InLayers, MatchesTheModel) {
  for (const Choice& choice : hierarchical()) {
    const auto job = job_of(2);
    for (const std::size_t count : {1, 1, 5000}) ASSERT_NO_FATAL_FAILURE(run(*job, choice, count));
  }
  const auto job = job_of(3);
  for (const std::size_t count : {1, 5000}) {
    for (const Choice& choice : hierarchical()) ASSERT_NO_FATAL_FAILURE(run(*job, choice, count));
  }
}

INSTANTIATE_TEST_SUITE_P(All, InLayers, ::testing::ValuesIn(in_layers()),
                         [](const auto& combination) {
                           std::string text = combination.param.forced;
                           for (char& c : text) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return text;
                         });

TEST(InLayers, ExchangeIsAmongThem) {
  int found = 0;
  for (const Combination& combination : in_layers())
    found +=
        combination.forced == "allgatherv=exchange" || combination.forced == "allgather=exchange";
  EXPECT_EQ(found, 2);
}

// ---- runs that cannot come to an end

Status run_bcast(const std::string& algorithm, const JobSpec& spec, bool roots_differ,
                 std::string* message) {
  Forced forced;
  std::unique_ptr<SimJob> job;
  EXPECT_TRUE(Forced::parse(algorithm, &forced, message).ok()) << *message;
  EXPECT_TRUE(SimJob::create(spec, &job, message).ok()) << *message;
  std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(job->size()),
                                           std::vector<std::byte>(100));
  return job->run(
      *forced.of(Coll::bcast),
      [&](int rank) {
        Call call;
        call.coll = Coll::bcast;
        call.bytes = 100;
        call.root = roots_differ ? (rank + 1) % job->size() : 0;
        call.recv = data[static_cast<std::size_t>(rank)].data();
        call.send = call.recv;
        return call;
      },
      1, message);
}

TEST(Endless, NamesTheRanksThatWait) {
  std::string message;
  const JobSpec spec{3, 1, test::profile("via2003"), false};
  EXPECT_FALSE(run_bcast("bcast=binomial", spec, true, &message).ok());
  EXPECT_NE(message.find("ranks wait for ever: rank 0 for rank 1"), std::string::npos) << message;
}

/// Acknowledgements of what never arrives: the root casts again and again.
TEST(Endless, GivesUpWhereOnlyDeadlinesPass) {
  for (const char* algorithm :
       {"bcast=multicast_linear_ack:timeout=10", "bcast=multicast_tree_ack:timeout=10",
        "bcast=multicast_coroot_ack:timeout=10"}) {
    JobSpec spec{5, 1, test::profile("via2003"), false};
    spec.network.loss = 1;
    std::string message;
    EXPECT_FALSE(run_bcast(algorithm, spec, false, &message).ok()) << algorithm;
    EXPECT_NE(message.find("ranks wait for ever"), std::string::npos) << message;
    EXPECT_NE(message.find("nothing arrives"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tutti::sim
