// Waiting told apart from transfer, and who is late.
#include "mpi/report/arrivals.hpp"

#include <gtest/gtest.h>

#include "mpi/report/clocks.hpp"
#include "profiles.hpp"

namespace tutti::report {
namespace {

TEST(Arrivals, OthersWaitForALateRankAndTheRestIsTransfer) {
  MadeUpJob job(3);
  for (std::uint64_t t = 0; t < 1000; t += 100)
    job.meet(Coll::allreduce, {{t, t + 60}, {t + 10, t + 60}, {t + 50, t + 60}});
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_EQ(found.compared, 10u);
  EXPECT_DOUBLE_EQ(found.sites[0][0].ns, 600);
  EXPECT_DOUBLE_EQ(found.sites[0][0].waiting_ns, 500);
  EXPECT_DOUBLE_EQ(found.sites[1][0].waiting_ns, 400);
  EXPECT_DOUBLE_EQ(found.sites[2][0].waiting_ns, 0);
  EXPECT_EQ(found.ranks[2].last, 10u);
  EXPECT_EQ(found.ranks[0].last, 0u);
  EXPECT_DOUBLE_EQ(found.ranks[2].caused_ns, 900);
  EXPECT_DOUBLE_EQ(found.ranks[2].behind_ns, 500);
  EXPECT_DOUBLE_EQ(found.ranks[1].caused_ns, 0);
}

TEST(Arrivals, ABroadcastWaitsForItsRootOnly) {
  MadeUpJob job(3);
  job.meet(Coll::bcast, {{0, 100}, {20, 100}, {60, 100}}, 1);
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_DOUBLE_EQ(found.sites[0][0].waiting_ns, 20);
  EXPECT_DOUBLE_EQ(found.sites[1][0].waiting_ns, 0);
  EXPECT_DOUBLE_EQ(found.sites[2][0].waiting_ns, 0);
  EXPECT_DOUBLE_EQ(found.ranks[1].caused_ns, 20);
  EXPECT_EQ(found.ranks[2].last, 1u);  // it has come last, and nobody has waited for it
}

TEST(Arrivals, WhomACallHasWaitedForCountsWhereItCameLater) {
  MadeUpJob job(3);
  job.meet(Coll::bcast, {{0, 100}, {20, 100}, {60, 100}}, 1, 2);
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_DOUBLE_EQ(found.sites[0][0].waiting_ns, 60);
  EXPECT_DOUBLE_EQ(found.sites[1][0].waiting_ns, 40);
  EXPECT_DOUBLE_EQ(found.ranks[2].caused_ns, 100);
}

TEST(Arrivals, ReductionsWaitAtTheirRootAndScansForLowerRanks) {
  MadeUpJob job(3);
  job.meet(Coll::reduce, {{0, 5}, {10, 90}, {70, 75}}, 1);
  job.meet(Coll::scan, {{100, 105}, {110, 190}, {170, 190}});
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_DOUBLE_EQ(found.sites[0][0].waiting_ns, 0);
  EXPECT_DOUBLE_EQ(found.sites[1][0].waiting_ns, 60);
  EXPECT_DOUBLE_EQ(found.sites[2][0].waiting_ns, 0);
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_DOUBLE_EQ(found.sites[rank][1].waiting_ns, 0) << rank;
}

TEST(Arrivals, NobodyWaitsLongerThanItsCallLasts) {
  MadeUpJob job(2);
  job.meet(Coll::allreduce, {{0, 30}, {50, 60}});  // clocks that are not quite the same
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_DOUBLE_EQ(found.sites[0][0].waiting_ns, 30);
}

TEST(Arrivals, WhatAMemberHasNotKeptIsNotCompared) {
  MadeUpJob job(2);
  job.meet(Coll::allreduce, {{0, 40}, {10, 40}});
  job.meet(Coll::allreduce, {{100, 140}, {110, 140}});
  job.at(1).kinds[0].kept.pop_back();
  const Arrivals found = compare_arrivals(job.profiles());
  EXPECT_EQ(found.compared, 1u);
  EXPECT_EQ(found.sites[0][0].compared, 1u);
  // The call that was compared speaks for the other, too.
  EXPECT_DOUBLE_EQ(found.ranks[1].caused_ns, 20);
}

TEST(Arrivals, TheTimeLineSaysWhenSomebodyWasLate) {
  MadeUpJob job(2);
  job.meet(Coll::allreduce, {{0, 10}, {1, 10}});
  job.meet(Coll::allreduce, {{100000, 109000}, {108000, 109000}});
  const TimeLine line = compare_arrivals(job.profiles()).line;
  ASSERT_EQ(line.behind_ns.size(), 2u * static_cast<std::size_t>(line.columns));
  const float* const late = &line.behind_ns[static_cast<std::size_t>(line.columns)];
  EXPECT_FLOAT_EQ(late[0], 1);
  EXPECT_FLOAT_EQ(late[line.columns - 1], 8000);
  EXPECT_LT(late[line.columns / 2], 0);
}

TEST(Arrivals, NothingIsThere) {
  const Arrivals found = compare_arrivals(std::vector<RankProfile>(2));
  EXPECT_EQ(found.compared, 0u);
  EXPECT_EQ(found.line.columns, 0);
}

TEST(Clocks, ADriftingClockIsAligned) {
  MadeUpJob job(2);
  job.meet(Coll::barrier, {{5000, 6000}, {1'002'500, 1'003'000}});
  job.at(1).clock = 7;
  // Ahead by a million at first, and half as fast.
  const std::vector<ClockPoint> points{{9, 1, 1}, {7, 1'000'000, 0}, {7, 1'005'000, 10'000}};
  align(points, &job.at(1));
  EXPECT_EQ(job.at(1).kinds[0].kept[0].begin, 5000u);
  EXPECT_EQ(job.at(1).kinds[0].kept[0].end, 6000u);
  align(points, &job.at(0));  // of a clock that is not among them
  EXPECT_EQ(job.at(0).kinds[0].kept[0].begin, 5000u);
}

}  // namespace
}  // namespace tutti::report
