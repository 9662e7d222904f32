// A DCP or an APP is killed: the others are told which, in bounded time, and DCPs leave.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "offload/dedicated_jobs.hpp"

namespace tutti {
namespace {

using test::Rank;
using Clock = std::chrono::steady_clock;

Settings settings_for_deaths() {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 30;
  settings.spin_us = 100;
  return settings;
}

/// Allreduces until one fails; that must name `victim` within two seconds.
void survive(Rank& r, int victim) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::f64, &reduction));
  double in = 1, out = 0;
  Call call;
  call.coll = Coll::allreduce;
  call.bytes = sizeof in;
  call.send = &in;
  call.recv = &out;
  call.reduction = &reduction;
  for (int turn = 0; turn < 100'000; ++turn) {
    const auto begin = Clock::now();
    const Status status = r.job.run(r.team, call);
    if (status.ok()) {
      ASSERT_EQ(out, r.size);
      continue;
    }
    EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
    EXPECT_EQ(status.peer, victim);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 2);
    return;
  }
  ADD_FAILURE() << "the death was never noticed";
}

TEST(Death, OfADcpIsReportedByItsApps) {
  Settings settings = settings_for_deaths();
  settings.fault = "kill:op=put:at=200:rank=3";
  const auto statuses =
      test::run_dedicated_processes(3, 1, settings, [](Rank& r) { survive(r, 3); });
  EXPECT_TRUE(WIFSIGNALED(statuses[3]) && WTERMSIG(statuses[3]) == SIGKILL) << statuses[3];
  for (int app = 0; app < 3; ++app) EXPECT_EQ(statuses[static_cast<std::size_t>(app)], 0) << app;
}

TEST(Death, OfAnotherDcpIsReportedByAll) {
  Settings settings = settings_for_deaths();
  settings.fault = "kill:op=put:at=200:rank=5";
  const auto statuses =
      test::run_dedicated_processes(4, 2, settings, [](Rank& r) { survive(r, 5); });
  EXPECT_TRUE(WIFSIGNALED(statuses[5]) && WTERMSIG(statuses[5]) == SIGKILL) << statuses[5];
  for (int app = 0; app < 4; ++app) EXPECT_EQ(statuses[static_cast<std::size_t>(app)], 0) << app;
  EXPECT_EQ(statuses[4], 0) << "the other DCP leaves when its APPs have";
}

TEST(Death, OfAnAppIsReportedByTheOthersAndTheDcpLeaves) {
  Settings settings = settings_for_deaths();
  settings.fault = "kill:op=signal:at=100:rank=1";
  const auto statuses =
      test::run_dedicated_processes(3, 1, settings, [](Rank& r) { survive(r, 1); });
  EXPECT_TRUE(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL) << statuses[1];
  for (const std::size_t other : {0, 2, 3}) EXPECT_EQ(statuses[other], 0) << other;
}

TEST(Death, OfAllAppsLeavesNoDcpBehind) {
  const auto begin = Clock::now();
  const auto statuses =
      test::run_dedicated_processes(2, 1, settings_for_deaths(), [](Rank&) { _exit(0); });
  EXPECT_EQ(statuses[2], 0);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 5);
}

}  // namespace
}  // namespace tutti
