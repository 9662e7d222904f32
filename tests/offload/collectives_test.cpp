// Offloaded collectives against the serial model: every one that can be offloaded, sizes around
// each threshold, 1 to 4 DCPs, in place or not, blocking, non-blocking and persistent, on many
// communicators at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "offload/dedicated_jobs.hpp"
#include "offload/wire.hpp"
#include "support/collective_model.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Model;
using test::Rank;

constexpr Coll kOffloaded[] = {Coll::barrier,   Coll::bcast,     Coll::reduce,
                               Coll::allreduce, Coll::allgather, Coll::alltoall};

// A request holds 24 bytes, a reply 48, a cell 1024, a piece 65536; counts are of 4-byte elements.
const std::vector<std::size_t> kCounts = {1,   6,   7,   12,   13,    85,   86,
                                          255, 256, 257, 3000, 16385, 40001};
const std::vector<std::size_t> kFewCounts = {1, 7, 256, 257, 20000};

bool reduced() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return false;
#endif
}

const Reduction& sum() {
  static const Reduction reduction = [] {
    Reduction found;
    EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &found));
    return found;
  }();
  return reduction;
}

Settings small_arena() {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 60;
  return settings;
}

void expect_result(const Model& model, const Case& mine, const Rank& r, bool in_place) {
  const auto expected = model.expected(r.rank);
  ASSERT_EQ(mine.result(expected.size()), expected)
      << name(model.coll()) << " rank " << r.rank << " of " << r.size << " root " << model.root()
      << " count " << model.count() << (in_place ? " in place" : "");
}

void run_cases(Rank& r, Coll coll, const std::vector<std::size_t>& counts) {
  std::uint64_t round = 0;
  for (const std::size_t count : counts) {
    for (const int root : test::roots(coll, r.size, round)) {
      for (const bool in_place : {false, true}) {
        const Model model(coll, r.size, root, count, ++round);
        Case mine(model, r.rank, in_place, sum());
        ASSERT_STREQ(r.job.algorithm(r.team, mine.call), "dcp");
        const Status status = r.job.run(r.team, mine.call);
        ASSERT_TRUE(status.ok()) << name(status.code) << " "
                                 << (status.detail != nullptr ? status.detail : "");
        expect_result(model, mine, r, in_place);
      }
    }
  }
}

class Offloaded : public ::testing::TestWithParam<Coll> {};

TEST_P(Offloaded, MatchesTheModel) {
  const std::pair<int, int> shapes[] = {{2, 1}, {3, 1}, {4, 2}, {5, 2}, {7, 3}, {8, 4}};
  for (const auto& [apps, processors] : shapes) {
    if (reduced() && apps != 3 && apps != 5) continue;
    test::run_dedicated(apps, processors, small_arena(), [&](Rank& r) {
      run_cases(r, GetParam(), reduced() ? kFewCounts : kCounts);
    });
    if (HasFatalFailure()) return;
  }
}

// What cross-memory attach would do goes through the arena.
TEST_P(Offloaded, MatchesTheModelWithoutUserMemory) {
  Settings settings = small_arena();
  settings.cma = Switch::off;
  test::run_dedicated(5, 2, settings, [&](Rank& r) { run_cases(r, GetParam(), kFewCounts); });
}

INSTANTIATE_TEST_SUITE_P(All, Offloaded, ::testing::ValuesIn(kOffloaded),
                         [](const auto& coll) { return std::string(name(coll.param)); });

/// A team of some of the job's ranks, nullptr on the others.
Team* team_of(Rank& r, std::uint64_t id, const std::vector<std::int32_t>& members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] != r.rank) continue;
    Team* team = nullptr;
    const Status status = r.job.create_team(
        TeamSpec{{id, 77}, static_cast<int>(i), static_cast<int>(members.size()), members.data()},
        &team);
    EXPECT_TRUE(status.ok()) << status.detail;
    return team;
  }
  return nullptr;
}

TEST(Communicators, AnyOfThemIsServed) {
  test::run_dedicated(6, 2, small_arena(), [](Rank& r) {
    // In another order than the job's, of APPs of one DCP only, of one from each.
    const std::vector<std::vector<std::int32_t>> groups = {{5, 3, 1, 0, 2, 4}, {0, 1}, {5, 0}};
    for (std::uint64_t turn = 0; turn < 40; ++turn) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        Team* team = team_of(r, 1000 + turn * groups.size() + g, groups[g]);
        if (team == nullptr) continue;
        for (const Coll coll : kOffloaded) {
          for (const std::size_t count : {std::size_t{2}, std::size_t{300}}) {
            const Model model(coll, team->size(), team->size() - 1, count, turn);
            Case mine(model, team->rank(), false, sum());
            ASSERT_TRUE(r.job.run(*team, mine.call).ok());
            const auto expected = model.expected(team->rank());
            ASSERT_EQ(mine.result(expected.size()), expected) << name(coll) << " group " << g;
          }
        }
        r.job.release_team(team);
      }
    }
  });
}

TEST(Outstanding, ManyAtOnceCompleteInAnyOrder) {
  constexpr int kMany = 150;  // more than requests fit into the ring
  test::run_dedicated(4, 2, small_arena(), [](Rank& r) {
    Team* other = team_of(r, 5, {3, 2, 1, 0});
    std::vector<Model> models;
    std::vector<std::unique_ptr<Case>> cases;
    std::vector<Operation*> operations(kMany);
    for (int i = 0; i < kMany; ++i) {
      const Coll coll = kOffloaded[i % 6];
      models.emplace_back(coll, r.size, i % r.size, i % 5 == 0 ? 2000 : 3, i);
    }
    for (int i = 0; i < kMany; ++i) {
      const auto at = static_cast<std::size_t>(i);
      Team& team = i % 2 == 0 ? r.team : *other;
      cases.push_back(std::make_unique<Case>(models[at], team.rank(), false, sum()));
      ASSERT_TRUE(r.job.start(team, cases.back()->call, &operations[at]).ok());
    }
    for (int i = kMany - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      Team& team = i % 2 == 0 ? r.team : *other;
      ASSERT_TRUE(r.job.wait(*operations[at]).ok());
      r.job.release(operations[at]);
      const auto expected = models[at].expected(team.rank());
      ASSERT_EQ(cases[at]->result(expected.size()), expected) << i;
    }
    r.job.release_team(other);
  });
}

// A small request has no task: whoever looks at it finds the answer, in each way there is to look.
TEST(Outstanding, SmallOnesEndInEveryWay) {
  constexpr int kMany = 240;
  test::run_dedicated(3, 1, small_arena(), [](Rank& r) {
    const auto expected = [&](int i) { return 3 * i + 3; };
    std::vector<std::int32_t> in(kMany), abandoned(kMany, -1);
    Call call;
    call.coll = Coll::allreduce;
    call.bytes = 4;
    call.reduction = &sum();
    for (int i = 0; i < kMany; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::int32_t out = -1;
      in[at] = i + r.rank;
      call.send = &in[at];
      call.recv = i % 4 == 3 ? &abandoned[at] : &out;
      Operation* operation = nullptr;
      ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
      Status outcome;
      std::uint32_t round = 0;
      switch (i % 4) {
        case 0:
          ASSERT_TRUE(r.job.wait(*operation).ok());
          break;
        case 1:
          while (!r.job.test(*operation, &outcome)) std::this_thread::yield();
          ASSERT_TRUE(outcome.ok());
          break;
        case 2:  // as MPI_Waitany: what is looked at is whether it is over
          while (active(*operation)) r.job.relax(round++);
          ASSERT_TRUE(r.job.test(*operation, &outcome));
          ASSERT_TRUE(outcome.ok());
          break;
        default:  // as MPI_Request_free
          break;
      }
      r.job.release(operation);
      if (i % 4 != 3) {
        ASSERT_EQ(out, expected(i));
      }
    }
    std::uint32_t round = 0;
    for (int i = 3; i < kMany; i += 4) {
      const volatile std::int32_t& out = abandoned[static_cast<std::size_t>(i)];
      while (out == -1) r.job.relax(round++);
      ASSERT_EQ(out, expected(i));
    }
  });
}

TEST(Persistent, IsStartedAgainAndAgain) {
  test::run_dedicated(3, 1, small_arena(), [](Rank& r) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{5000}}) {
      std::vector<std::int32_t> in(count), out(count);
      Call call;
      call.coll = Coll::allreduce;
      call.send = in.data();
      call.recv = out.data();
      call.bytes = count * 4;
      call.reduction = &sum();
      Operation* operation = nullptr;
      ASSERT_TRUE(r.job.prepare(r.team, call, &operation).ok());
      for (int turn = 0; turn < 200; ++turn) {
        std::fill(in.begin(), in.end(), turn * (r.rank + 1));
        ASSERT_TRUE(r.job.restart(*operation).ok());
        Status outcome;
        while (!r.job.test(*operation, &outcome)) std::this_thread::yield();
        ASSERT_TRUE(outcome.ok());
        ASSERT_EQ(out.front(), turn * 6);
        ASSERT_EQ(out.back(), turn * 6);
      }
      r.job.release(operation);
    }
  });
}

// Small collectives come through while large ones of the same communicator are under way.
TEST(Starvation, SmallOnesOvertakeLargeOnes) {
  test::run_dedicated(2, 1, small_arena(), [](Rank& r) {
    const std::size_t large = std::size_t{16} << 20;
    std::vector<std::int32_t> in(large, 1), out(large);
    Call call;
    call.coll = Coll::allreduce;
    call.bytes = large * 4;
    call.send = in.data();
    call.recv = out.data();
    call.reduction = &sum();
    Operation* operation = nullptr;
    int before = 0;
    ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
    std::int32_t one = 1, two = 0;
    Call little = call;
    little.bytes = 4;
    little.send = &one;
    little.recv = &two;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(r.job.run(r.team, little).ok());
      ASSERT_EQ(two, 2);
      before += active(*operation) ? 1 : 0;
    }
    EXPECT_GE(before, 1) << "none of ten small ones was over before the large one";
    ASSERT_TRUE(r.job.wait(*operation).ok());
    r.job.release(operation);
    ASSERT_EQ(out.front(), 2);
    ASSERT_EQ(out.back(), 2);
  });
}

TEST(Nodes, AreServedOverTheNetwork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not see that libfabric orders what it delivers";
#endif
  Settings settings = small_arena();
  settings.net = Switch::on;
  // A DCP on each of two nodes; then one for both, so that two APPs are served from the other node.
  const std::vector<std::pair<int, std::vector<int>>> shapes = {{2, {0, 0, 1, 1, 0, 1}},
                                                                {1, {0, 0, 1, 1, 0}}};
  for (const auto& [processors, node_of] : shapes) {
    test::run_dedicated(
        4, processors, settings,
        [](Rank& r) {
          for (const Coll coll : kOffloaded) run_cases(r, coll, {1, 7, 256, 20000});
        },
        node_of);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tutti
