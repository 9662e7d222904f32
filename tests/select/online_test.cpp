// The choice on line as a state machine, fed with times of a model: what is chosen, what choosing
// costs, and that all members decide the same.
#include "select/online.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "../base/random_seed.hpp"

namespace tutti {
namespace {

constexpr Coll kColl = Coll::allreduce;
constexpr OperatorClass kClass = OperatorClass::divisible;

Known nothing(std::size_t /*bytes*/) { return {}; }
Known a_second(std::size_t /*bytes*/) { return {Runner::chosen, true}; }

Online::Cell* find(Online& online, Coll coll, OperatorClass operators, std::size_t bytes) {
  return online.cell(coll, operators, bytes, nothing);
}

bool on_host(const Online& online, const Online::Cell& cell) {
  return online.runner(cell) == Runner::host;
}

/// What a call takes: by who runs it, and how many calls there have been.
using Model = std::function<double(bool host, int call)>;

struct Outcome {
  double took = 0;  // ns, of all calls
  int host = 0;     // calls that the host ran
  int trials = 0;
  bool ends_on_host = false;
};

/// One member that speaks for all: their mean is its own time.
Outcome run(Online& online, const Model& model, int calls, std::size_t bytes = 1000) {
  Outcome outcome;
  for (int i = 0; i < calls; ++i) {
    Online::Cell* const cell = find(online, kColl, kClass, bytes);
    online.take(*cell);
    const bool timed = cell->on_trial, host = on_host(online, *cell);
    const double ns = model(host, i);
    outcome.took += ns;
    outcome.host += host;
    Verdict verdict;
    if (timed && online.ended(static_cast<std::uint64_t>(ns)) &&
        online.conclude(online.block_time(), &verdict))
      ++outcome.trials;
    outcome.ends_on_host = on_host(online, *cell);
  }
  return outcome;
}

TEST(Online, TakesWhatIsFasterAndChoosingCostsLittle) {
  // Of 10,000 calls, at most this part of what the better one of the two takes for them all.
  for (const double own : {1e3, 1e4, 1e5, 1e7}) {
    for (const double ratio : {0.05, 0.3, 0.9, 1.0, 1.1, 1.4, 2.0, 10.0, 100.0}) {
      Online online(false);
      constexpr int kCalls = 10000;
      const Outcome outcome = run(
          online, [&](bool host, int) { return host ? own * ratio : own; }, kCalls);
      SCOPED_TRACE(::testing::Message() << "own " << own << " ratio " << ratio);
      EXPECT_EQ(outcome.ends_on_host, ratio < 0.95);
      EXPECT_GT(outcome.trials, 0);
      const double without = own * kCalls, best = std::min(own, own * ratio) * kCalls;
      if (ratio >= 0.95) {
        EXPECT_LT(outcome.took - without, 0.011 * without);
      } else {
        EXPECT_LT(outcome.took, best + 0.6 * (without - best));
      }
    }
  }
}

TEST(Online, WhatTakesNoTimeIsNotTried) {
  Online online(false);
  const Outcome outcome = run(
      online, [](bool, int) { return 100.0; }, 10000);
  EXPECT_EQ(outcome.host, 0);  // a millisecond in all
  EXPECT_EQ(outcome.trials, 0);
}

TEST(Online, RareCallsAreNotTried) {
  Online online(false);
  EXPECT_EQ(run(
                online, [](bool, int) { return 1e9; }, 31)
                .host,
            0);
}

TEST(Online, WhatIsSetUpInTheFirstCallDecidesNothing) {
  Online online(false);
  bool first = true;
  EXPECT_TRUE(run(
                  online,
                  [&](bool host, int) {
                    if (!host) return 1e4;
                    return std::exchange(first, false) ? 1.5e5 : 4e3;
                  },
                  20000)
                  .ends_on_host);
}

/// Who runs each call of a kind that the host is faster at for a while; `asks`: leaves() first.
std::vector<Runner> runners(bool asks, int* left) {
  Online online(false);
  std::vector<Runner> all;
  for (int i = 0; i < 60'000; ++i) {
    Online::Cell* const cell = find(online, kColl, kClass, 1000);
    if (asks && Online::leaves(*cell)) {
      Online::count_left(*cell);
      ++*left;
      all.push_back(Runner::host);
      continue;
    }
    online.take(*cell);
    const Runner runner = online.runner(*cell);
    all.push_back(runner);
    if (!cell->on_trial) continue;
    Verdict verdict;
    if (online.ended((runner == Runner::host) == (i < 20'000) ? 4000 : 10'000))
      online.conclude(online.block_time(), &verdict);
  }
  return all;
}

TEST(Online, LeavingToTheHostDecidesAsTakingDoes) {
  int left = 0;
  const std::vector<Runner> all = runners(true, &left);
  EXPECT_EQ(all, runners(false, &left));
  EXPECT_GT(left, 10'000);  // nearly all while it is faster
  EXPECT_EQ(all.back(), Runner::chosen);
  EXPECT_GT(std::count(all.begin(), all.end(), Runner::host), left);
}

/// How many calls of 10 us it takes until a second of 4 us runs them, whose first call takes 40.
int calls_until_the_second_runs(bool known_to_set_up) {
  Online online(false);
  bool first = true;
  int calls = 0;
  for (const Online::Cell* cell = nullptr; calls < 20'000; ++calls) {
    Online::Cell* const its = online.cell(kColl, kClass, 1000, [=](std::size_t) {
      return Known{Runner::chosen, true, known_to_set_up};
    });
    if (cell != nullptr && cell->runner == Runner::second) break;
    cell = its;
    online.take(*its);
    const bool second = online.runner(*its) == Runner::second;
    const double ns = !second ? 1e4 : std::exchange(first, false) ? 4e4 : 4e3;
    Verdict verdict;
    if (its->on_trial && online.ended(static_cast<std::uint64_t>(ns)))
      online.conclude(online.block_time(), &verdict);
  }
  return calls;
}

TEST(Online, ASecondThatIsKnownToSetSomethingUpHasAnotherProbe) {
  const int with = calls_until_the_second_runs(true), without = calls_until_the_second_runs(false);
  EXPECT_LT(with, without / 2) << with << " and " << without;
}

TEST(Online, WhereProcessorsAreScarceOnlyLongTimesAreWorthIt) {
  Online online(true);
  EXPECT_EQ(run(
                online, [](bool, int) { return 1e4; }, 5000)
                .host,
            0);
  EXPECT_GT(run(
                online, [](bool, int) { return 1e4; }, 50000)
                .host,
            0);
}

TEST(Online, InterruptionsDecideNothing) {
  // One call in twenty takes fifty times as long; the host is 1.2 times slower.
  std::mt19937 random(static_cast<unsigned>(tutti::testing::random_seed()));
  std::uniform_int_distribution<int> drawn(0, 19);
  int wrong = 0;
  for (int repetition = 0; repetition < 200; ++repetition) {
    Online online(false);
    wrong +=
        run(
            online,
            [&](bool host, int) { return (host ? 1.2e4 : 1e4) * (drawn(random) == 0 ? 50 : 1); },
            20000)
            .ends_on_host;
  }
  EXPECT_LE(wrong, 4);
}

TEST(Online, WhatChangesIsNoticed) {
  // The host becomes four times faster, and later slower again.
  Online online(false);
  const Model model = [](bool host, int call) {
    return host ? (call > 20000 && call < 300000 ? 2.5e3 : 1.5e4) : 1e4;
  };
  EXPECT_FALSE(run(online, model, 20000).ends_on_host);
  EXPECT_TRUE(run(
                  online, [&](bool host, int call) { return model(host, call + 20000); }, 200000)
                  .ends_on_host);
  EXPECT_FALSE(run(
                   online, [&](bool host, int call) { return model(host, call + 300000); }, 200000)
                   .ends_on_host);
}

TEST(Online, ACellWhoseCallsEndDoesNotStandInTheWay) {
  Online online(false);
  const Model model = [](bool host, int) { return host ? 1e4 : 1e5; };
  for (int i = 0; i < 64 + 5; ++i) {  // in the middle of its trial
    Online::Cell* const cell = find(online, kColl, kClass, 8);
    Verdict verdict;
    online.take(*cell);
    if (cell->on_trial &&
        online.ended(static_cast<std::uint64_t>(model(on_host(online, *cell), i))))
      online.conclude(online.block_time(), &verdict);
  }
  EXPECT_TRUE(run(online, model, 1000, 4096).ends_on_host);
}

// Each has times of its own and is told the mean of all: that keeps them on one way.
TEST(Online, AllMembersDecideTheSame) {
  constexpr std::size_t kMembers = 5;
  std::mt19937_64 random(testing::random_seed(1));
  Online members[kMembers] = {Online(false), Online(false), Online(false), Online(false),
                              Online(false)};
  // Of the chosen one, the second and the host, each is the best for some time; for ever longer,
  // since the pauses between trials grow.
  constexpr double kTakes[3][3] = {{1, 0.4, 2.5}, {1, 2.5, 0.4}, {1, 3, 2.5}};
  std::array<int, 3> calls{};
  for (int i = 0; i < 1000000; ++i) {
    const double* const takes = kTakes[i < 20000 ? 0 : i < 200000 ? 1 : 2];
    const std::size_t bytes = std::size_t{1} << random() % 3;
    Online::Cell* cells[kMembers];
    bool over = false;
    double sum = 0;
    for (std::size_t m = 0; m < kMembers; ++m) {
      cells[m] = members[m].cell(kColl, kClass, bytes, a_second);
      members[m].take(*cells[m]);
      const Runner runner = members[m].runner(*cells[m]);
      ASSERT_EQ(runner, members[0].runner(*cells[0])) << "call " << i << ", member " << m;
      if (!cells[m]->on_trial) continue;
      const double ns =
          std::uniform_real_distribution<>(1e4, 1e5)(random) * takes[static_cast<int>(runner)];
      over = members[m].ended(static_cast<std::uint64_t>(ns));
      sum += members[m].block_time();
    }
    Verdict verdict;
    for (std::size_t m = 0; over && m < kMembers; ++m)
      members[m].conclude(sum / kMembers, &verdict);
    ++calls[static_cast<std::size_t>(cells[0]->runner)];
  }
  for (const int of_one : calls) EXPECT_GT(of_one, 1000);
}

TEST(Online, TakesTheBestOfThree) {
  for (const double second : {0.2, 0.8, 1.0, 1.3, 5.0}) {
    for (const double host : {0.25, 0.7, 1.0, 1.2, 20.0}) {
      const double takes[] = {1e4, second * 1e4, host * 1e4};
      Online online(false);
      constexpr int kCalls = 20000;
      double took = 0;
      Runner last = Runner::chosen;
      for (int i = 0; i < kCalls; ++i) {
        Online::Cell* const cell = online.cell(kColl, kClass, 8, a_second);
        online.take(*cell);
        const double ns = takes[static_cast<int>(online.runner(*cell))];
        took += ns;
        Verdict verdict;
        if (cell->on_trial && online.ended(static_cast<std::uint64_t>(ns)))
          online.conclude(ns, &verdict);
        last = cell->runner;
      }
      SCOPED_TRACE(::testing::Message() << "second " << second << " host " << host);
      const double best = *std::min_element(takes, takes + 3);
      EXPECT_LE(takes[static_cast<int>(last)], best / Online::kBetter);
      // The trials, and what there was to lose until they were over: one that was far behind keeps
      // the next challenger waiting.
      const double without = takes[0] * kCalls;
      EXPECT_LT(took, best * kCalls + 0.016 * without + 0.3 * (without - best * kCalls));
    }
  }
}

TEST(Online, TheVerdictNamesBoth) {
  Online online(false);
  std::vector<Verdict> verdicts;
  for (int i = 0; i < 2000 && verdicts.size() < 3; ++i) {
    Online::Cell* const cell = online.cell(kColl, kClass, 8, a_second);
    online.take(*cell);
    const Runner runner = online.runner(*cell);
    const double ns = runner == Runner::host ? 5e4 : 1e5;
    Verdict verdict;
    if (cell->on_trial && online.ended(static_cast<std::uint64_t>(ns)) &&
        online.conclude(ns, &verdict))
      verdicts.push_back(verdict);
  }
  // The second changes nothing; the host wins, and wins again.
  ASSERT_EQ(verdicts.size(), 3u);
  const Runner runners[] = {Runner::chosen, Runner::host, Runner::host};
  const Runner others[] = {Runner::second, Runner::chosen, Runner::chosen};
  const double ratios[] = {1, 2, 2};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(verdicts[i].runner, runners[i]) << i;
    EXPECT_EQ(verdicts[i].other, others[i]) << i;
    EXPECT_NEAR(verdicts[i].ratio, ratios[i], 0.01) << i;
  }
}

TEST(Online, ATrialThatCannotEndIsGivenUp) {
  Online online(false);
  Online::Cell& cell = *find(online, kColl, kClass, 8);
  bool on_trial = false;
  for (int i = 0; i < 100 && !on_trial; ++i) {
    online.take(cell);
    on_trial = cell.on_trial;
  }
  ASSERT_TRUE(on_trial);
  online.give_up();
  const Outcome later = run(
      online, [](bool, int) { return 1e6; }, 10000, 8);
  EXPECT_EQ(later.trials, 0);
  EXPECT_EQ(later.host, 0);
  online.give_up();  // nothing is on trial
}

TEST(Online, CellsThatWaitForATrialHaveTheirTurns) {
  constexpr int kCells = 8;
  Online online(false);
  int calls = 0;
  for (int there = 0; there < kCells && calls < 1000; ++calls) {
    there = 0;
    for (std::size_t i = 0; i < kCells; ++i) {
      Online::Cell* const cell = find(online, kColl, kClass, std::size_t{1} << i);
      online.take(*cell);
      const bool host = on_host(online, *cell);
      Verdict verdict;
      if (cell->on_trial && online.ended(host ? 10000 : 100000))
        online.conclude(online.block_time(), &verdict);
      there += cell->runner == Runner::host ? 1 : 0;
    }
  }
  // The first one's wait, and for each a trial and the time until it is looked at again.
  EXPECT_LE(calls, 32 + kCells * (16 + 1 + 3 * 8 + 8));
}

TEST(Online, CellsAreTheirOwn) {
  Online online(false);
  EXPECT_TRUE(run(
                  online, [](bool host, int) { return host ? 1e4 : 1e5; }, 1000, 4096)
                  .ends_on_host);
  for (const auto& [coll, operators, bytes] :
       {std::tuple{kColl, kClass, std::size_t{8192}}, std::tuple{kColl, kClass, std::size_t{4095}},
        std::tuple{kColl, OperatorClass::whole, std::size_t{4096}},
        std::tuple{Coll::bcast, kClass, std::size_t{4096}}})
    EXPECT_FALSE(on_host(online, *find(online, coll, operators, bytes)));
  EXPECT_TRUE(on_host(online, *find(online, kColl, kClass, 8191)));
}

TEST(Online, BeginsWithWhatWasKept) {
  Online online(false);
  const auto from_a_kilobyte = [](std::size_t bytes) {
    return Known{bytes >= 1024 ? Runner::host : Runner::chosen, false};
  };
  for (const std::size_t bytes : {1, 1023, 1024, 5000})
    EXPECT_EQ(on_host(online, *online.cell(kColl, kClass, bytes, from_a_kilobyte)), bytes >= 1024);
  // It is tried like anything else.
  EXPECT_FALSE(run(
                   online, [](bool host, int) { return host ? 1e5 : 1e4; }, 1000, 1024)
                   .ends_on_host);
  EXPECT_TRUE(run(
                  online, [](bool host, int) { return host ? 1e4 : 1e5; }, 1000, 5000)
                  .ends_on_host);
}

TEST(Online, CountsWithoutEnd) {
  Online online(false);
  Online::Cell& cell = *find(online, kColl, kClass, 8);
  cell.calls = cell.next = Online::kMostCalls - 1;
  cell.left = cell.period = 1;
  EXPECT_EQ(run(
                online, [](bool, int) { return 1e6; }, 1000, 8)
                .host,
            0);
  EXPECT_EQ(cell.calls, Online::kMostCalls);
}

TEST(Online, WhatIsSettledIsNeverTried) {
  Online online(false);
  int begun = 0;
  for (int i = 0; i < 100000; ++i) {
    Online::Cell* const cell = find(online, kColl, kClass, 8);
    if (online.take(*cell)) {
      online.settle(*cell);
      ++begun;
    }
    ASSERT_FALSE(on_host(online, *cell)) << i;
  }
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace tutti
