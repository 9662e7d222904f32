// What is known of processors that are wanted by others.
#include "engine/crowding.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint64_t kLater = 1'000'000'000;  // ns; longer than the time between two looks

/// A file in which somebody says how long a thread has run and waited.
class Said {
 public:
  Said() : file_(memfd_create("schedstat", 0)) {}
  ~Said() { close(file_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  void say(const std::string& text) const {
    ASSERT_EQ(ftruncate(file_, 0), 0);
    ASSERT_EQ(pwrite(file_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

 private:
  const int file_;
};

TEST(Crowding, IsWaitingAsLongAsRunningBetweenTheLooks) {
  const Said said;
  said.say("5000 9000 7\n");
  Crowding crowding(said.path().c_str());
  std::uint64_t now = kLater;
  EXPECT_FALSE(crowding.crowded(now));  // what was before the first look does not count
  said.say("6000 10000 9\n");
  EXPECT_FALSE(crowding.crowded(now + 1));  // not looked at again so soon
  EXPECT_TRUE(crowding.crowded(now += kLater));
  EXPECT_TRUE(crowding.crowded(now += kLater));  // it has slept meanwhile
  said.say("7000 10999 9\n");
  EXPECT_FALSE(crowding.crowded(now += kLater));
  EXPECT_FALSE(crowding.crowded(now += kLater));
}

TEST(Crowding, IsSupposedWhereNobodySays) {
  EXPECT_TRUE(Crowding("/proc/self/no such file").crowded(kLater));
  const Said said;
  for (const std::string text : {"", "-", "12", "12 x 3", "99999999999999999999 1 1"}) {
    said.say("5000 1 7\n");
    Crowding crowding(said.path().c_str());
    EXPECT_FALSE(crowding.crowded(kLater));
    said.say(text);
    EXPECT_TRUE(crowding.crowded(2 * kLater)) << text;
  }
}

/// What the kernel says of this process, in ns.
void read_figures(double* ran, double* waited) {
  std::ifstream("/proc/self/schedstat") >> *ran >> *waited;
}

/// Computes for so long beside as many processes that do the same, all on one processor.
void compute_beside(int others, double seconds) {
  std::vector<pid_t> busy;
  for (int i = 0; i < others; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (volatile bool computes = true; computes;) {
      }
      _exit(0);
    }
    busy.push_back(child);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
  for (const pid_t process : busy) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

/// Beside three that are busy, and alone. The machine may have other things to do, so what has to
/// be found is told by the figures.
TEST(Crowding, IsWhatTheKernelsFiguresSay) {
  if (access("/proc/self/schedstat", R_OK) != 0) GTEST_SKIP() << "this kernel does not say";
  cpu_set_t home, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof home, &home), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &home)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Crowding crowding;
  std::uint64_t now = kLater;
  for (const int others : {3, 0}) {
    double ran = 0, waited = 0, ran_then = 0, waited_then = 0;
    crowding.crowded(now += kLater);
    read_figures(&ran_then, &waited_then);
    compute_beside(others, 1);
    read_figures(&ran, &waited);
    const double ratio = (waited - waited_then) / (ran - ran_then);
    std::printf("beside %d it waits for %.2f of the time that it runs\n", others, ratio);
    const bool crowded = crowding.crowded(now += kLater);
    if (others > 0) {
      EXPECT_GT(ratio, 1.5);
    }
    if (ratio < 0.8 || ratio > 1.25) {
      EXPECT_EQ(crowded, ratio > 1);
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof home, &home), 0);
}

}  // namespace
}  // namespace tutti
