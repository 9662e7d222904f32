// A rank is killed in the middle of every collective with every algorithm: the others are told
// which one, in bounded time, and nothing is left behind.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Combination;
using test::Model;
using test::Rank;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr double kBound = 2;  // seconds until a survivor knows

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<std::string> files_of_tutti() {
  std::vector<std::string> names;
  if (DIR* folder = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(folder)) {
      if (std::strstr(entry->d_name, "tutti") != nullptr) names.push_back(entry->d_name);
    }
    closedir(folder);
  }
  return names;
}

/// Other tests that run at the same time have some for a moment: of those that are there now none
/// may stay.
void expect_no_files() {
  std::vector<std::string> left = files_of_tutti();
  for (const Clock::time_point begin = Clock::now(); !left.empty() && seconds_since(begin) < 5;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::vector<std::string> now = files_of_tutti();
    std::erase_if(left, [&now](const std::string& name) {
      return std::ranges::find(now, name) == now.end();
    });
  }
  EXPECT_EQ(left, std::vector<std::string>{});
}

/// Runs the collective until it fails; the failure must name the victim and come within `bound`
/// seconds.
void survive(Rank& r, const Combination& combination, int victim, std::size_t count, bool waits,
             double bound = kBound) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    const Model model(combination.algorithm->coll, r.size, 0, count, 1);
    Case mine(model, r.rank, false, reduction);
    const auto begin = Clock::now();
    Status status;
    if (waits) {
      Operation* operation = nullptr;
      status = r.job.start(r.team, mine.call, &operation);
      if (status.ok()) {
        status = r.job.wait(*operation);
        r.job.release(operation);
      }
    } else {
      status = r.job.run(r.team, mine.call);
    }
    if (status.ok()) continue;
    EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
    EXPECT_EQ(status.peer, victim);
    EXPECT_LT(seconds_since(begin), bound);
    const auto again = Clock::now();
    EXPECT_EQ(r.job.run(r.team, Call{}).code, Code::peer_lost) << "the team is broken for good";
    EXPECT_LT(seconds_since(again), bound);
    return;
  }
  ADD_FAILURE() << "the death was never noticed";
}

void expect_only_the_victim_died(const std::vector<int>& statuses, int victim) {
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    const int status = statuses[rank];
    if (static_cast<int>(rank) == victim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          << "the victim lived on: " << status;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "survivor " << rank << ": " << status;
    }
  }
  expect_no_files();
}

std::string as_name(const Combination& combination) {
  std::string text = combination.forced;
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text;
}

class Death : public ::testing::TestWithParam<Combination> {};

TEST_P(Death, OfARankInTheMiddleIsReportedInTime) {
  const auto index = static_cast<int>(std::hash<std::string>{}(GetParam().forced) % 1000);
  // Where it can run: sizes for the small and for the large path of the algorithm. Of these every
  // rank has something from rank 0, and for it (Model::pair_count): others need not notice.
  for (const std::size_t count : {std::size_t{60}, std::size_t{20'001}}) {
    const int victim = index % kRanks;
    Settings settings;
    settings.arena = std::size_t{128} << 20;
    settings.algorithm = GetParam().forced;
    settings.deadline_s = 30;
    settings.spin_us = 100;
    settings.segment = index % 2 == 0 ? SegmentKind::memfd : SegmentKind::posix;
    settings.fault =
        "kill:op=any:at=" + std::to_string(30 + index % 37) + ":rank=" + std::to_string(victim);
    const auto statuses = test::run_processes(
        kRanks, settings, [&](Rank& r) { survive(r, GetParam(), victim, count, index % 3 == 0); });
    expect_only_the_victim_died(statuses, victim);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Death, ::testing::ValuesIn(test::combinations()),
                         [](const auto& combination) { return as_name(combination.param); });

/// Rank 1 dies. The root's gather fails, and its buffer is its own again, before rank 2 looks at
/// the invitation to write into it.
TEST(Death, NobodyWritesIntoTheMemoryOfARootThatHasFailed) {
  constexpr std::size_t kBytes = 100'000;
  constexpr auto kMuch = std::chrono::milliseconds(700);
  Settings settings;
  settings.algorithm = "gather=cma_write";
  settings.progress_thread = Switch::off;
  settings.deadline_s = 30;
  const auto statuses = test::run_processes(kRanks, settings, [&](Rank& r) {
    ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    const std::vector<char> sent(kBytes, 'x');
    std::vector<char> all(kBytes * kRanks, '-');
    Call call;
    call.coll = Coll::gather;
    call.send = sent.data();
    call.recv = all.data();
    call.bytes = kBytes;
    Operation* operation = nullptr;
    if (r.rank == 1) raise(SIGKILL);
    // The others have begun, and found no invitation.
    if (r.rank == 0) std::this_thread::sleep_for(kMuch / 3);
    ASSERT_TRUE(r.job.start(r.team, call, &operation).ok());
    if (r.rank == 2) std::this_thread::sleep_for(kMuch);  // it computes
    EXPECT_EQ(r.job.wait(*operation).code, Code::peer_lost);
    r.job.release(operation);
    if (r.rank != 0) return;
    all.assign(all.size(), 'y');
    std::this_thread::sleep_for(2 * kMuch);
    EXPECT_EQ(all, std::vector<char>(all.size(), 'y'));
  });
  expect_only_the_victim_died(statuses, 1);
}

/// What a large node runs along its parts: trees of cells, and nested algorithms.
std::vector<Combination> along_the_machine() {
  std::vector<Combination> all;
  for (const Combination& one : test::combinations()) {
    const std::string name = one.algorithm->name;
    if ((name == "tree" || name == "nested") && one.forced.find(':') == std::string::npos)
      all.push_back(one);
  }
  return all;
}

class LargeDeath : public ::testing::TestWithParam<std::tuple<int, Combination>> {};

TEST_P(LargeDeath, OfARankOfManyIsReportedInTime) {
  const auto& [ranks, combination] = GetParam();
  const auto index = static_cast<int>(std::hash<std::string>{}(combination.forced) % 1000);
  const int victim = index % ranks;
  Settings settings;
  settings.arena = std::size_t{16} << 20;
  settings.algorithm = combination.forced;
  settings.topology = ranks == 33 ? "l3:3 core:11" : "package:2 l3:4 core:8";
  settings.deadline_s = 60;
  settings.spin_us = 100;
  settings.fault =
      "kill:op=any:at=" + std::to_string(30 + index % 37) + ":rank=" + std::to_string(victim);
  // All of them share few processors, where one of 64 runs seldom.
  const auto statuses = test::run_processes(ranks, settings, [&](Rank& r) {
    survive(r, combination, victim, 60, index % 2 == 0, 5 * kBound);
  });
  expect_only_the_victim_died(statuses, victim);
}

INSTANTIATE_TEST_SUITE_P(All, LargeDeath,
                         ::testing::Combine(::testing::Values(33, 64),
                                            ::testing::ValuesIn(along_the_machine())),
                         [](const auto& test) {
                           return as_name(std::get<1>(test.param)) + "_" +
                                  std::to_string(std::get<0>(test.param));
                         });

// Deadlines: a rank that stays away without dying.
TEST(Deadline, NamesTheRankThatIsMissing) {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 0.5;
  settings.fault = "drop:op=signal:at=3:count=0:rank=1";  // lives, but is never heard again
  const auto statuses = test::run_processes(2, settings, [&](Rank& r) {
    const auto begin = Clock::now();
    Status status;
    for (int round = 0; round < 20'000 && status.ok(); ++round) status = r.job.run(r.team, Call{});
    if (r.rank == 1) return;
    EXPECT_EQ(status.code, Code::timeout) << name(status.code);
    EXPECT_EQ(status.peer, 1);
    EXPECT_LT(seconds_since(begin), 10);
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

// More broadcasts than memory, on teams whose other member never reads: rank 0 waits for memory,
// trying again every 100 us, which must not pass for progress.
struct Starving {
  static constexpr int kTeams = 40;
  std::vector<std::byte> data = std::vector<std::byte>(std::size_t{1} << 20);
  std::vector<Team*> teams = std::vector<Team*>(kTeams);
  std::vector<Operation*> operations = std::vector<Operation*>(kTeams);

  /// On both ranks.
  explicit Starving(Rank& r) {
    const std::int32_t members[] = {0, 1};
    for (std::uint64_t i = 0; i < kTeams; ++i)
      EXPECT_TRUE(r.job.create_team(TeamSpec{{8, i}, r.rank, 2, members}, &teams[i]).ok());
    EXPECT_TRUE(r.job.run(r.team, Call{}).ok());
  }
  void begin(Rank& r) {
    Call call;
    call.coll = Coll::bcast;
    call.send = call.recv = data.data();
    call.bytes = data.size();
    for (std::size_t i = 0; i < kTeams; ++i)
      ASSERT_TRUE(r.job.start(*teams[i], call, &operations[i]).ok());
  }
  Status end(Rank& r) {
    Status last;
    for (Operation* operation : operations) {
      last = r.job.wait(*operation);
      r.job.release(operation);
    }
    return last;
  }
};

Settings short_of_memory() {
  Settings settings;
  settings.arena = std::size_t{16} << 20;
  settings.algorithm = "bcast=blocks";
  return settings;
}

TEST(Memory, ADeathIsNoticedByWhoWaitsForIt) {
  const auto statuses = test::run_processes(2, short_of_memory(), [](Rank& r) {
    Starving starving(r);
    if (r.rank == 1) raise(SIGKILL);
    const auto begin = Clock::now();
    starving.begin(r);
    const Status status = starving.end(r);
    EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
    EXPECT_EQ(status.peer, 1);
    EXPECT_LT(seconds_since(begin), kBound);
  });
  EXPECT_TRUE(WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
}

void pass_the_deadline_while_starving(bool by_waiting) {
  Settings settings = short_of_memory();
  settings.deadline_s = 1;
  const auto statuses = test::run_processes(2, settings, [by_waiting](Rank& r) {
    Starving starving(r);
    if (r.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(3));  // away, and alive
      return;
    }
    const auto begin = Clock::now();
    Operation* barrier = nullptr;
    ASSERT_TRUE(r.job.start(r.team, Call{}, &barrier).ok());
    Status status;
    while (seconds_since(begin) < 0.8) ASSERT_FALSE(r.job.test(*barrier, &status));
    starving.begin(r);
    if (by_waiting) {
      status = r.job.wait(*barrier);
    } else {
      while (!r.job.test(*barrier, &status)) std::this_thread::yield();
    }
    EXPECT_EQ(status.code, Code::timeout) << name(status.code);
    EXPECT_LT(seconds_since(begin), 1.6) << "when the deadline of who waits for memory passed";
    r.job.release(barrier);
    status = starving.end(r);
    EXPECT_EQ(status.code, Code::timeout) << name(status.code);
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST(Memory, TheDeadlineOfOthersPassesWhileOnePollsForIt) {
  pass_the_deadline_while_starving(false);
}

TEST(Memory, TheDeadlineOfOthersPassesWhileOneWaitsForIt) {
  pass_the_deadline_while_starving(true);
}

// Whoever has given one communicator up goes on with another, whose time begins with its calls.
TEST(Deadline, OfOneTeamIsNotThatOfTheNext) {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 1;
  const auto statuses = test::run_processes(2, settings, [](Rank& r) {
    const std::int32_t members[] = {0, 1};
    Team* other = nullptr;
    ASSERT_TRUE(r.job.create_team(TeamSpec{{7, 0}, r.rank, 2, members}, &other).ok());
    ASSERT_TRUE(r.job.run(*other, Call{}).ok());
    if (r.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1700));
      EXPECT_TRUE(r.job.run(*other, Call{}).ok());
      return;
    }
    Operation *first = nullptr, *second = nullptr;
    Status status;
    ASSERT_TRUE(r.job.start(r.team, Call{}, &first).ok());
    while (!r.job.test(*first, &status)) std::this_thread::yield();
    EXPECT_EQ(status.code, Code::timeout) << name(status.code);
    r.job.release(first);
    ASSERT_TRUE(r.job.start(*other, Call{}, &second).ok());
    while (!r.job.test(*second, &status)) std::this_thread::yield();
    EXPECT_TRUE(status.ok()) << name(status.code);
    r.job.release(second);
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

}  // namespace
}  // namespace tutti
