// Where the progress thread runs, who is woken, and who is let run.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/job.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

/// Id of the thread of this process with that name; 0: there is none.
pid_t find_thread(const std::string& name) {
  pid_t found = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* entry = tasks == nullptr ? nullptr : readdir(tasks)) {
    std::ifstream comm("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string said;
    if (std::getline(comm, said) && said == name) found = std::atoi(entry->d_name);
  }
  if (tasks != nullptr) closedir(tasks);
  return found;
}

/// The same of one that is about to give itself that name.
pid_t thread_named(const std::string& name) {
  for (int i = 0; i < 1000; ++i) {
    if (const pid_t found = find_thread(name); found != 0) return found;
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return 0;
}

cpu_set_t cpus_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(thread, sizeof set, &set), 0);
  return set;
}

int last_cpu(const cpu_set_t& set) {
  int cpu = CPU_SETSIZE - 1;
  while (cpu > 0 && !CPU_ISSET(cpu, &set)) --cpu;
  return cpu;
}

/// With one processor there is nothing to tell apart.
bool one_processor() {
  const cpu_set_t home = cpus_of(0);
  return CPU_COUNT(&home) < 2;
}

/// Binds this thread to the last of its processors, and starts an operation. Checks that the
/// progress thread comes to be on `cpu`, or anywhere for -1.
void start_bound(test::Rank& r, int cpu) {
  const cpu_set_t home = cpus_of(0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last_cpu(home), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);

  Call call;
  call.coll = Coll::barrier;
  Operation* operation = nullptr;
  ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
  const pid_t thread = thread_named("tutti-progress");
  // Nothing is pending any more where all were fast, but the thread stays.
  ASSERT_TRUE(r.job.wait(*operation).ok());
  r.job.release(operation);
  ASSERT_NE(thread, 0);
  const cpu_set_t there = cpus_of(thread);
  if (cpu < 0) {
    EXPECT_TRUE(CPU_EQUAL(&there, &home));
  } else {
    EXPECT_EQ(CPU_COUNT(&there), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &there));
  }
}

TEST(ProgressThread, RunsWhereTheProcessMayEvenIfItsMakerIsBound) {
  if (one_processor()) GTEST_SKIP() << "needs two processors";
  EXPECT_TRUE(test::all_exited(
      test::run_processes(2, Settings{}, [](test::Rank& r) { start_bound(r, -1); })));
}

TEST(ProgressThread, IsBoundWhereTheSettingsSaySo) {
  if (one_processor()) GTEST_SKIP() << "needs two processors";
  Settings settings;
  const cpu_set_t home = cpus_of(0);
  while (!CPU_ISSET(static_cast<std::size_t>(++settings.progress_cpu), &home)) {
  }
  EXPECT_TRUE(test::all_exited(test::run_processes(
      2, settings, [&](test::Rank& r) { start_bound(r, settings.progress_cpu); })));
}

TEST(ProgressThread, GoesHomeFromAProcessorThatThereIsNot) {
  if (one_processor()) GTEST_SKIP() << "needs two processors";
  Settings settings;
  settings.progress_cpu = CPU_SETSIZE - 1;
  settings.log = LogLevel::error;
  EXPECT_TRUE(test::all_exited(
      test::run_processes(2, settings, [](test::Rank& r) { start_bound(r, -1); })));
}

/// Times that a thread of this process has gone to sleep.
long sleeps_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  const std::string wanted = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(wanted)) return std::atol(line.c_str() + wanted.size());
  }
  return -1;
}

/// Who waits looks after everything itself: the thread would only take its processor.
TEST(ProgressThread, SleepsWhileTheApplicationWaits) {
  EXPECT_TRUE(test::all_exited(test::run_processes(2, Settings{}, [](test::Rank& r) {
    Call call;
    call.coll = Coll::barrier;
    Operation* operation = nullptr;
    const timespec late{0, 300'000'000};
    if (r.rank == 1) nanosleep(&late, nullptr);
    ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
    const pid_t thread = thread_named("tutti-progress");
    ASSERT_TRUE(r.job.wait(*operation).ok());
    r.job.release(operation);
    ASSERT_NE(thread, 0);
    if (r.rank == 0) {
      const long slept = sleeps_of(thread);
      EXPECT_GT(slept, 0);
      EXPECT_LT(slept, 30);  // looking in every 100 us is 3,000
    }
  })));
}

/// It sleeps while rank 0 waits for something else, and then has to go on with what is pending
/// while rank 0 is away: a sum in many parts, of which rank 1 sees the end.
TEST(ProgressThread, IsCalledWhenTheApplicationLeaves) {
  constexpr std::size_t kCount = 1 << 21;
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  std::atomic<bool> seen{false};
  test::run_threads(2, Settings{}, [&](test::Rank& r) {
    const std::int32_t members[] = {0, 1};
    Team* other = nullptr;
    ASSERT_TRUE(r.job.create_team(TeamSpec{{9, 1}, r.rank, 2, members}, &other).ok());
    std::vector<std::int32_t> mine(kCount, r.rank + 1), sum(kCount);
    Call call;
    call.coll = Coll::allreduce;
    call.send = mine.data();
    call.recv = sum.data();
    call.bytes = kCount * sizeof mine[0];
    call.reduction = &reduction;
    Operation* operation = nullptr;
    const timespec late{0, 100'000'000}, moment{0, 1'000'000};
    if (r.rank == 0) {
      ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
    }
    if (r.rank == 1) nanosleep(&late, nullptr);
    ASSERT_TRUE(r.job.run(*other, Call{}).ok());
    if (r.rank == 1) {
      ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
      ASSERT_TRUE(r.job.wait(*operation).ok());
      seen.store(true);
    }
    for (int i = 0; i < 20'000 && !seen.load(); ++i) nanosleep(&moment, nullptr);
    EXPECT_TRUE(seen.load());
    if (r.rank == 0) {
      ASSERT_TRUE(r.job.wait(*operation).ok());
    }
    r.job.release(operation);
    EXPECT_EQ(sum[kCount - 1], 3);
    r.job.release_team(other);
  });
}

/// An engine of one rank in which something is pending, and its progress thread.
struct Pending {
  explicit Pending(std::uint64_t grace_ns) {
    WaitPolicy policy;
    policy.grace_ns = grace_ns;
    const auto alone = test::thread_bootstraps(1);
    EXPECT_TRUE(test::connect_shm(*alone[0], settings, &fabric).ok());
    engine = std::make_unique<Engine>(*fabric, policy, HostPump{}, false);
    engine->background().set_thread(true, -1);
    Engine::Guard guard(*engine);
    guard.escalate();
    engine->background().started();
  }
  ~Pending() { engine->background().finished(); }

  /// Times that the thread has looked after what is pending and found nothing more to do.
  std::uint64_t looks() const { return engine->background().counts().sleeps; }
  /// Calls `meanwhile` until it has, for 20 s at most.
  template <class Meanwhile>
  bool looks_again(std::uint64_t than, Meanwhile meanwhile) {
    const std::uint64_t begin = fabric->now_ns();
    while (looks() == than && fabric->now_ns() - begin < 20'000'000'000) meanwhile();
    return looks() != than;
  }
  void visit() { const Engine::Guard guard(*engine); }
  void ring() { fabric->wake(fabric->rank(), Event::solicited); }

  Settings settings;
  std::unique_ptr<shm::ShmFabric> fabric;
  std::unique_ptr<Engine> engine;
};

void rest() {
  const timespec moment{0, 1'000'000};
  nanosleep(&moment, nullptr);
}

/// The application has what is pending for itself for a minute, but not while it blocks elsewhere
/// and others may wait, and the engine ends before.
TEST(ProgressThread, CutsItsGraceShortForOthers) {
  Pending pending(60'000'000'000);
  for (int i = 0; i < 200 && pending.looks() == 0; ++i) rest();
  EXPECT_EQ(pending.looks(), 0U);
  {
    Engine::Guard guard(*pending.engine);
    guard.escalate();
    pending.engine->background().cover();
  }
  EXPECT_TRUE(pending.looks_again(0, rest));
  pending.engine->background().uncover();
}

constexpr std::uint64_t kGrace = 200'000;  // ns that the application has for itself

/// For a millisecond. Where the system took the processor away the application was not about, and
/// it is tried again.
TEST(ProgressThread, KeepsAwayFromWhoCallsAgainAndAgain) {
  constexpr int kTimes = 8;  // a thread that does come may be too late for one of them
  int times = 0;
  for (int i = 0; i < 1000 && times < kTimes; ++i) {
    Pending pending(kGrace);
    ASSERT_TRUE(pending.looks_again(0, rest));
    const std::uint64_t begin = pending.fabric->now_ns();
    pending.visit();
    const std::uint64_t before = pending.looks();
    pending.ring();
    std::uint64_t looks = before;
    bool about = true;
    for (std::uint64_t last = begin; about && last - begin < 1'000'000;) {
      pending.visit();
      looks = pending.looks();  // before the clock is read: then it is of the time that counts
      const std::uint64_t now = pending.fabric->now_ns();
      about = now - last < 100'000;
      last = now;
    }
    if (about) {
      ++times;
      EXPECT_EQ(looks, before);
    }
    EXPECT_TRUE(pending.looks_again(before, rest));
  }
  EXPECT_EQ(times, kTimes);
}

/// What is done in those calls may move nothing.
TEST(ProgressThread, LooksAfterAllThatIsPendingInTheEnd) {
  Pending pending(kGrace);
  ASSERT_TRUE(pending.looks_again(0, rest));
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = pending.looks();
    EXPECT_TRUE(pending.looks_again(before, [&pending] {
      pending.visit();
      pending.ring();
    }));
  }
}

TEST(ProgressThread, LeavesMoreTimeOnlyToWhoMayShareAProcessor) {
  Settings settings;
  const auto most = [&settings](int ranks, int cores) {
    const WaitPolicy policy = choose_wait_policy(ranks, cores, false, settings);
    return std::max(policy.grace_ns, policy.crowded_grace_ns);
  };
  EXPECT_EQ(most(2, 2), WaitPolicy{}.grace_ns);
  EXPECT_EQ(most(3, 2), 100 * WaitPolicy{}.grace_ns);
  settings.progress_thread = Switch::on;
  EXPECT_EQ(most(3, 2), WaitPolicy{}.grace_ns);
}

/// Rank 2 sleeps for a word of rank 0. Rank 1 publishes a cell every millisecond meanwhile: it has
/// nothing to do with that.
TEST(Sleepers, AreLeftAloneByOthers) {
  constexpr int kCells = 50;
  Settings settings;
  settings.algorithm = "reduce=flat";
  settings.spin_us = 1;
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  test::run_threads(3, settings, [&](test::Rank& r) {
    int mine = r.rank, sum = 0;
    Call call;
    call.coll = Coll::reduce;
    call.root = 2;
    call.send = &mine;
    call.recv = &sum;
    call.bytes = sizeof mine;
    call.reduction = &reduction;
    ASSERT_TRUE(r.job.run(r.team, call).ok());  // they meet
    const timespec pause{0, 1'000'000}, late{0, (kCells + 20) * 1'000'000};
    if (r.rank == 0) nanosleep(&late, nullptr);
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    const std::uint64_t before = engine.times_woken();
    for (int i = 0; i < kCells; ++i) {
      if (r.rank == 1) nanosleep(&pause, nullptr);
      ASSERT_TRUE(r.job.run(r.team, call).ok());
      // Once the first is there, all are.
      if (i == 0 && r.rank == 2) {
        EXPECT_LE(engine.times_woken() - before, 5u);
      }
    }
  });
}

/// Nanoseconds of a processor that this thread has had.
std::uint64_t processor_time() {
  timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<std::uint64_t>(spent.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(spent.tv_nsec);
}

/// Two ranks that should have a processor each are put on the same one, as the system does where
/// ranks are not bound. Who polls for the other one keeps it from running: an operation would cost
/// the rest of a slice of the scheduler, which is milliseconds, and not what it takes to give way.
TEST(Neighbours, AreLetRunWhereEachShouldHaveAProcessor) {
  constexpr int kOperations = 200;
  Settings settings;
  settings.wait = WaitMode::spin;
  EXPECT_TRUE(test::all_exited(test::run_processes(2, settings, [](test::Rank& r) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last_cpu(cpus_of(0)), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Call call;
    call.coll = Coll::barrier;
    ASSERT_TRUE(r.job.run(r.team, call).ok());
    const std::uint64_t before = processor_time();
    for (int i = 0; i < kOperations; ++i) ASSERT_TRUE(r.job.run(r.team, call).ok());
    const std::uint64_t spent = (processor_time() - before) / kOperations;
    EXPECT_LT(spent, 500'000u);  // a part of the shortest slice
  })));
}

std::int64_t times_asleep() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// Ranks that are far ahead of a slow root sleep until it has freed half of their cells, and are
/// not woken for each of them.
TEST(Publishers, AreNotWokenForEachCell) {
  constexpr int kOperations = 1'000;
  Settings settings;
  settings.wait = WaitMode::sleep;
  EXPECT_TRUE(test::all_exited(test::run_processes(3, settings, [](test::Rank& r) {
    const std::uint64_t mine = 1;
    std::uint64_t all[3] = {};
    Call call;
    call.coll = Coll::gather;
    call.send = &mine;
    call.recv = all;
    call.bytes = sizeof mine;
    const std::int64_t before = times_asleep();
    for (int i = 0; i < kOperations; ++i) {
      const timespec slow{0, 100'000};
      if (r.team.rank() == 0) nanosleep(&slow, nullptr);
      ASSERT_TRUE(r.job.run(r.team, call).ok());
    }
    if (r.team.rank() != 0) {
      EXPECT_LT(times_asleep() - before, kOperations / 4);
    }
  })));
}

Task end_at_once(Engine&) noexcept { co_return Status::success(); }

/// Who sleeps often remains counted among the sleepers, which costs all who publish something, but
/// not for ever where its operations end without a wait.
TEST(Sleepers, AreForgottenWhenTheyAreAwake) {
  Settings settings;
  settings.wait = WaitMode::sleep;
  std::barrier slept(2), looked(2);
  test::run_threads(2, settings, [&](test::Rank& r) {
    Call call;
    call.coll = Coll::barrier;
    for (int i = 0; i < 100; ++i) {
      const timespec slow{0, 300'000};
      if (r.rank == 0) nanosleep(&slow, nullptr);
      ASSERT_TRUE(r.job.run(r.team, call).ok());
    }
    slept.arrive_and_wait();
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    if (r.rank == 0) {
      EXPECT_TRUE(engine.fabric().sleepers());
    }
    looked.arrive_and_wait();
    for (int i = 0; i < 2'000; ++i) {
      Engine::Guard guard(engine);
      ASSERT_TRUE(engine.run([&engine] { return end_at_once(engine); }, guard).ok());
    }
    slept.arrive_and_wait();
    EXPECT_FALSE(engine.fabric().sleepers());
    looked.arrive_and_wait();
  });
}

/// A rank without a host (a dedicated processor) has nothing to do while it waits but to look after
/// its peers' health, ten times a second.
TEST(Sleepers, SleepOnWhereNobodyNeedsThem) {
  Settings settings;
  settings.spin_us = 1;
  test::run_threads(2, settings, [](test::Rank& r) {
    ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    const timespec second{1, 0};
    if (r.rank == 0) nanosleep(&second, nullptr);
    ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    getrusage(RUSAGE_THREAD, &after);
    if (r.rank == 1) EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 100);
  });
}

Task await_word(Engine& engine, const Word& word, Membership& by) noexcept {
  co_await engine.reached(word, 1, by, by.ranks[0]);
  co_return Status::success();
}

Task count_words(Engine& engine, const Word& word, Membership& by, int* seen) noexcept {
  for (; *seen < 3; ++*seen) {
    const auto next = static_cast<std::uint64_t>(*seen + 1);
    co_await engine.reached_aside(word, next, by, by.ranks[0]);
  }
  co_return Status::success();
}

// Whoever drives the engine goes on each time, also where more is there already.
TEST(Aside, WhoDrivesTheEngineLooksInBetween) {
  Settings settings;
  settings.wait = WaitMode::spin;
  test::run_threads(1, settings, [](test::Rank& r) {
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    const std::int32_t self = 0;
    Membership by{&self, 1, {}};
    Word word{3};
    int seen = 0;
    Engine::Guard guard(engine);
    Task task = count_words(engine, word, by, &seen);
    task.start();
    EXPECT_EQ(seen, 0);
    for (const int polls : {1, 2}) {
      EXPECT_TRUE(engine.poll());
      EXPECT_EQ(seen, polls);
    }
    int looks = 0;
    engine.wait_until([&] { return ++looks == 2 || task.done(); }, guard);
    EXPECT_TRUE(task.done());
  });
}

Task take_words(Engine& engine, const Word& word, Membership& by, int* taken) noexcept {
  for (;;) {
    const auto next = static_cast<std::uint64_t>(*taken + 1);
    const Status status =
        co_await outcome(engine.reached_aside(word, next, by, by.ranks[0]));
    if (!status.ok()) co_return status;
    ++*taken;
  }
}

TEST(Aside, WhatHasArrivedCountsWhereItsSenderIsLost) {
  test::run_threads(1, Settings{}, [](test::Rank& r) {
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    const std::int32_t self = 0;
    Membership by{&self, 1, {}};
    by.broken = Status{Code::peer_lost, 0, "a test"};
    Word word{3};
    int taken = 0;
    Engine::Guard guard(engine);
    Task task = take_words(engine, word, by, &taken);
    task.start();
    engine.wait_until([&] { return task.done(); }, guard);
    EXPECT_EQ(taken, 3);
    EXPECT_EQ(task.result().code, Code::peer_lost);
  });
}

/// Rank 3, on a node of its own, puts to rank 0 again and again. Rank 2 sleeps for words of its
/// neighbours, of rank 0 alone or of both, which has nothing to do with that.
class Arrivals : public ::testing::TestWithParam<int> {};

TEST_P(Arrivals, LeaveAloneWhoSleepsForItsNeighbours) {
  constexpr int kPuts = 300;
  Settings settings;
  settings.spin_us = 1;
  settings.multicast = Switch::off;
  settings.net_interface = "lo";
  Word words[2]{};
  std::atomic<bool> asleep{false};
  test::run_nodes({0, 0, 0, 1}, settings, [&](test::Rank& r) {
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    const timespec moment{0, 1'000'000}, late{0, 20'000'000};
    if (r.rank == 0 || r.rank == 3) {
      const std::int32_t members[] = {0, 3};
      Team* both = nullptr;
      const int mine = r.rank == 0 ? 0 : 1;
      ASSERT_TRUE(r.job.create_team(TeamSpec{{5, 5}, mine, 2, members}, &both).ok());
      while (!asleep.load()) nanosleep(&moment, nullptr);
      nanosleep(&late, nullptr);
      for (int i = 0; i < kPuts; ++i) {
        if (r.rank == 3) nanosleep(&moment, nullptr);
        ASSERT_TRUE(r.job.run(*both, Call{}).ok());
      }
      r.job.release_team(both);
    }
    if (r.rank < 2) {
      for (int i = 0; r.rank == 1 && i < 2 * kPuts; ++i) nanosleep(&moment, nullptr);
      words[r.rank].store(1, std::memory_order_release);
      engine.fabric().wake(2);
    }
    if (r.rank == 2) {
      const std::int32_t ranks[] = {0, 1};
      Membership by[2];
      for (int i = 0; i < 2; ++i) by[i].ranks = &ranks[i], by[i].size = 1;
      Task other;
      Engine::Guard guard(engine);
      if (GetParam() == 2) {
        other = await_word(engine, words[1], by[1]);
        other.start();
      }
      asleep.store(true);
      const std::uint64_t before = engine.times_woken();
      EXPECT_TRUE(engine.run([&] { return await_word(engine, words[0], by[0]); }, guard).ok());
      const std::uint64_t woken = engine.times_woken() - before;
      std::printf("woken %llu times\n", static_cast<unsigned long long>(woken));
      EXPECT_LT(woken, kPuts / 10u);
      engine.wait_until([&] { return GetParam() == 1 || other.done(); }, guard);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Arrivals, ::testing::Values(1, 2));

}  // namespace
}  // namespace tutti
