// The memory of a team that was given back is the next one's: whatever its members had put to each
// other must have landed by then, on connections that stand still for a while too.
//
//   TEST_TEAMS=10000 [TEST_SEED=7] test_core_reuse --gtest_filter=*ComeAndGo
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../base/random_seed.hpp"
#include "base/log.hpp"
#include "coll/multicast_bodies.hpp"
#include "core/job.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::broadcast;
using test::Case;
using test::Model;
using test::Rank;

Settings settings_of(const std::string& algorithm, const std::string& fault) {
  Settings settings;
  settings.algorithm = algorithm;
  settings.fault = fault;
  settings.arena = std::size_t{64} << 20;
  settings.deadline_s = 10;
  settings.net_interface = "lo";
  settings.multicast = Switch::on;
  settings.progress_thread = Switch::off;
  return settings;
}

std::vector<int> a_node_for_each(int ranks) {
  std::vector<int> nodes(static_cast<std::size_t>(ranks));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

Team* make_team(Rank& r, std::uint64_t number) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(r.size));
  std::iota(members.begin(), members.end(), 0);
  Team* team = nullptr;
  EXPECT_TRUE(
      r.job.create_team(TeamSpec{{77, number}, r.rank, r.size, members.data()}, &team).ok());
  return team;
}

/// What is held back on its way goes on only when somebody looks.
void poll(Rank& r) { static_cast<JobImpl&>(r.job).engine().poll(); }

/// Of the ranks as threads: a barrier of the job's would wait for the late connection too.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}
  void meet(Rank& r) {
    const int turn = come_.fetch_add(1) / ranks_;
    while (come_.load() < (turn + 1) * ranks_) {
      poll(r);
      usleep(100);
    }
  }

 private:
  const int ranks_;
  std::atomic<int> come_{0};
};

/// Calls of tutti's for a while: what was given back meanwhile is swept up.
void sweep(Rank& r, int rounds) {
  static std::atomic<std::uint64_t> made{0};
  for (int i = 0; i < rounds; ++i) {
    usleep(300);
    poll(r);
    Team* none = nullptr;
    const std::int32_t self = r.rank;
    ASSERT_TRUE(r.job.create_team(TeamSpec{{78, ++made}, 0, 1, &self}, &none).ok());
    r.job.release_team(none);
  }
}

// Rank 1, which is late, gets the word of rank 2 that it has the last message when the team is
// gone here, unless that waits for it. Read in the next team, it would say that rank 2 needs
// nothing there; and rank 2 waits for ever for what it has lost.
class Reuse : public ::testing::TestWithParam<int> {};

TEST_P(Reuse, AWordThatIsLateDoesNoHarm) {
  const std::string fault =
      "delay:op=put:rank=2:peer=1:us=300000:count=0,drop:op=receive:rank=2:at=4:count=0";
  Meeting all(GetParam());
  test::run_nodes(a_node_for_each(GetParam()), settings_of("bcast=multicast", fault), [&](Rank& r) {
    Team* const first = make_team(r, 1);
    Rank view{r.rank, r.size, r.job, *first};
    for (int round = 0; round < 3; ++round) {
      all.meet(r);
      if (r.rank == 1) usleep(20'000);
      broadcast(view, 0, 500, round);
    }
    r.job.release_team(first);
    sweep(r, 100);
    all.meet(r);
    Team* const second = make_team(r, 2);
    Rank next{r.rank, r.size, r.job, *second};
    broadcast(next, 0, 500, 9);
    r.job.release_team(second);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Reuse, ::testing::Values(4, 7, 10),
                         [](const auto& one) { return std::to_string(one.param) + "Ranks"; });

// A communicator that one member could not join is nobody's: its memory is there for the next one.
TEST(ReusedMemory, IsThatOfATeamThatNobodyUsed) {
  Meeting all(2);
  test::run_nodes({0, 1}, settings_of("", ""), [&](Rank& r) {
    const std::size_t used = r.job.memory().segment_used;
    for (std::uint64_t turn = 1; turn <= 4; ++turn) {
      Team* const team = make_team(r, turn);
      EXPECT_GT(r.job.memory().segment_used, used);
      all.meet(r);
      if (r.rank == 0) {
        const Status why = Status::error(Code::no_memory, "as this test wants it");
        EXPECT_FALSE(r.job.fail(*team, why).ok());
      }
      sweep(r, 20);  // rank 1 hears of it
      all.meet(r);
      r.job.discard_team(team);
      sweep(r, 1);
      EXPECT_EQ(r.job.memory().segment_used, used) << "turn " << turn;
      all.meet(r);
    }
  });
}

// What is put to a member that has given up is awaited by nobody.
TEST(ReusedMemory, IsNotThatOfABrokenTeam) {
  Meeting all(3);
  test::run_nodes({0, 1, 2}, settings_of("", ""), [&](Rank& r) {
    Team* const team = make_team(r, 1);
    ASSERT_TRUE(r.job.run(*team, Call{}).ok());
    const std::size_t used = r.job.memory().segment_used;
    all.meet(r);
    if (r.rank == 2) {
      const Status why = Status::error(Code::no_memory, "as this test wants it");
      EXPECT_FALSE(r.job.fail(*team, why).ok());
    }
    EXPECT_FALSE(r.job.run(*team, Call{}).ok());
    r.job.release_team(team);
    sweep(r, 50);
    all.meet(r);
    EXPECT_GE(r.job.memory().segment_used, used);
  });
}

// A program may give a team up before it waits for what it has started there.
TEST(ReusedMemory, OperationsOfABrokenTeamEndAfterIt) {
  constexpr int kRanks = 4;
  Meeting all(kRanks);
  test::run_nodes(a_node_for_each(kRanks), settings_of("bcast=multicast", ""), [&](Rank& r) {
    Team* const team = make_team(r, 1);
    Rank view{r.rank, r.size, r.job, *team};
    broadcast(view, 0, 500, 1);
    std::vector<std::byte> data(500);
    Call call;
    call.coll = Coll::bcast;
    call.send = call.recv = data.data();
    call.bytes = data.size();
    Operation* operation = nullptr;
    if (r.rank != 0) {
      ASSERT_TRUE(r.job.start(*team, call, &operation).ok());
    }
    poll(r);
    all.meet(r);
    if (r.rank == 0) {
      const Status why = Status::error(Code::no_memory, "as this test wants it");
      EXPECT_FALSE(r.job.fail(*team, why).ok());
    }
    usleep(100'000);  // it is on its way to the others, who do not look
    r.job.release_team(team);
    sweep(r, 50);
    if (operation != nullptr) {
      EXPECT_EQ(r.job.wait(*operation).code, Code::no_memory);
      r.job.release(operation);
    }
    all.meet(r);
  });
}

// ---- teams that come and go

/// A job in which connections stand still, datagrams are lost, and any algorithms run.
struct Plan {
  explicit Plan(std::uint64_t its_seed) : seed(its_seed), random(its_seed) {
    const int ranks = 4 + below(7);
    const bool several = random() % 3 == 0;  // on some nodes
    for (int rank = 0; rank < ranks; ++rank)
      nodes.push_back(several && rank != 0 && random() % 3 == 0 ? nodes.back() : rank);
    for (int i = 1 + below(3); i > 0; --i) {
      const int from = below(ranks), far = random() % 4 != 0 ? 1 : 1 + below(ranks - 1);
      fault += "delay:op=put:count=0:rank=" + std::to_string(from) +
               ":peer=" + std::to_string((from + ranks - far) % ranks) +
               ":us=" + std::to_string(500 + below(20000)) + ",";
      // Not without end: who is not put what it has lost waits until it is cast again.
      for (int begin = below(9); begin < 300; begin += 15 + below(30))
        fault += "drop:op=receive:rank=" + std::to_string(from) +
                 ":at=" + std::to_string(1 + begin) + ":count=" + std::to_string(1 + below(20)) +
                 ",";
    }
    fault.pop_back();
    const std::vector<test::Combination> all = test::combinations();
    for (int coll = 0; coll < kColls; ++coll) {
      std::vector<std::string> some;
      for (const test::Combination& one : all) {
        if (one.algorithm->coll != static_cast<Coll>(coll)) continue;
        const char* const first = one.algorithm->parameters[0].name;
        const bool waits = first != nullptr && std::string_view(first) == "timeout";
        some.push_back(one.forced + (waits ? ":timeout=2000" : ""));
      }
      const std::size_t drawn = random() % some.size();
      const bool ring = static_cast<Coll>(coll) == Coll::bcast && random() % 2 == 0;
      algorithms += (coll == 0 ? "" : ",") + (ring ? "bcast=multicast" : some[drawn]);
    }
  }
  int below(int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); }
  std::string text() const {
    std::string all = "seed " + std::to_string(seed) + ", ranks on nodes";
    for (const int node : nodes) all += " " + std::to_string(node);
    return all + ", TUTTI_FAULT=" + fault + " TUTTI_ALG=" + algorithms;
  }

  std::uint64_t seed;
  std::mt19937_64 random;
  std::vector<int> nodes;
  std::string fault, algorithms;
};

/// What all ranks do alike, each at its own speed.
class Program {
 public:
  Program(Rank& rank, const Plan& plan)
      : r_(rank),
        plan_(plan),
        shared_(plan.seed),
        own_(plan.seed * 31 + static_cast<std::uint64_t>(rank.rank)) {
    EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &sum_));
  }
  void run(int teams) {
    for (int team = 0; team < teams && !::testing::Test::HasFailure(); ++team) make_use_free();
    for (Team* team : kept_) r_.job.release_team(team);
  }

 private:
  void make_use_free() {
    std::vector<std::int32_t> members(static_cast<std::size_t>(r_.size));
    std::iota(members.begin(), members.end(), 0);
    if (shared_() % 3 == 0) {
      std::shuffle(members.begin(), members.end(), shared_);
      members.resize(2 + shared_() % (members.size() - 1));
    }
    const auto size = static_cast<int>(members.size());
    const auto place = std::find(members.begin(), members.end(), r_.rank);
    const auto me = static_cast<int>(place - members.begin());
    const std::uint64_t number = ++made_, uses = 1 + shared_() % 4, first = shared_();
    if (place == members.end()) return;
    Team* team = nullptr;
    const TeamSpec spec{{plan_.seed, number}, me, size, members.data()};
    ASSERT_TRUE(r_.job.create_team(spec, &team).ok()) << plan_.text();
    std::mt19937_64 calls(first);
    for (std::uint64_t use = 0; use < uses; ++use) {
      call(*team, me, size, calls);
      if (::testing::Test::HasFatalFailure()) return;
    }
    kept_.push_back(team);
    while (kept_.size() > (own_() % 8 == 0 ? 1 : 0)) {
      r_.job.release_team(kept_.front());
      kept_.erase(kept_.begin());
    }
    if (number % 2 == 0) sweep(r_, 10);
  }

  void call(Team& team, int me, int size, std::mt19937_64& calls) {
    static constexpr std::size_t kCounts[] = {1, 20, 70, 125, 300, 1281, 2000, 30000};
    const Coll coll = calls() % 4 != 0 ? Coll::bcast : static_cast<Coll>(calls() % kColls);
    const std::size_t count = coll == Coll::barrier ? 0 : kCounts[calls() % std::size(kCounts)];
    const int root = static_cast<int>(calls() % static_cast<std::uint64_t>(size));
    const Model model(coll, size, root, count, calls());
    Case mine(model, me, false, sum_);
    if (own_() % 3 == 0) usleep(static_cast<useconds_t>(own_() % 2000));
    const Status status = r_.job.run(team, mine.call);
    ASSERT_TRUE(status.ok()) << name(status.code) << ": "
                             << (status.detail != nullptr ? status.detail : "") << ": team "
                             << made_ << ", " << name(coll) << " of " << count << " from " << root
                             << ", rank " << r_.rank << "; " << plan_.text();
    const auto expected = model.expected(me);
    ASSERT_TRUE(mine.result(expected.size()) == expected)
        << "wrong: team " << made_ << ", " << name(coll) << " of " << count << " from " << root
        << ", rank " << r_.rank << "; " << plan_.text();
  }

  Rank& r_;
  const Plan& plan_;
  std::mt19937_64 shared_, own_;
  Reduction sum_;
  std::vector<Team*> kept_;
  std::uint64_t made_ = 0;
};

TEST(ReusedMemory, TeamsComeAndGo) {
  constexpr int kTeamsOfAJob = 50;
  const char* const asked = std::getenv("TEST_TEAMS");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  const int teams = asked == nullptr ? 50 : std::atoi(asked);
#else
  const int teams = asked == nullptr ? 200 : std::atoi(asked);
#endif
  log_setup(LogLevel::error, 0);  // where an algorithm cannot run is no news here
  for (int made = 0; made < teams && !HasFailure(); made += kTeamsOfAJob) {
    const Plan plan(testing::random_seed(static_cast<std::uint64_t>(made)));
    test::run_nodes(plan.nodes, settings_of(plan.algorithms, plan.fault),
                    [&](Rank& r) { Program(r, plan).run(kTeamsOfAJob); });
  }
}

}  // namespace
}  // namespace tutti
