// Several threads of a rank that wait at the same time: nobody is forgotten, nobody is woken for
// what is not its own, and what goes wrong is told to all of them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "../base/random_seed.hpp"
#include "core/job.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Model;
using test::Rank;

/// More rounds for TEST_LEVEL=2, fewer for 0 and under sanitizers.
int rounds() {
  const char* text = std::getenv("TEST_LEVEL");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  const int level = text == nullptr ? 0 : std::atoi(text);
#else
  const int level = text == nullptr ? 1 : std::atoi(text);
#endif
  return level == 0 ? 60 : level == 1 ? 300 : 3000;
}

/// A team of all ranks for each thread.
std::vector<Team*> make_teams(Rank& r, int threads) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(r.size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Team*> teams(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    const TeamSpec spec{{0x7ead, static_cast<std::uint64_t>(t)}, r.rank, r.size, all.data()};
    EXPECT_TRUE(r.job.create_team(spec, &teams[static_cast<std::size_t>(t)]).ok());
  }
  return teams;
}

/// Calls body(thread, its team) on so many threads.
template <class Do>
void on_threads(Rank& r, int threads, const Do& body) {
  const std::vector<Team*> teams = make_teams(r, threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] { body(t, *teams[static_cast<std::size_t>(t)]); });
  for (std::thread& thread : all) thread.join();
  for (Team* team : teams) r.job.release_team(team);
}

// ---- random programs

/// What one thread does: drawn from the seed by its peers on the other ranks too, but for how it
/// waits.
class Strand {
 public:
  Strand(Rank& rank, Team& team, int thread, std::uint64_t seed)
      : r_(rank),
        team_(team),
        thread_(thread),
        shared_(seed * 1009 + static_cast<std::uint64_t>(thread)),
        own_(shared_() * 31 + static_cast<std::uint64_t>(rank.rank)) {
    EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &sum_));
  }
  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      if (own_() % 6 == 0) usleep(static_cast<useconds_t>(own_() % 400));
      if (shared_() % 3 == 0) {
        message(step);
      } else {
        collective(static_cast<std::uint64_t>(step));
      }
    }
  }

 private:
  void collective(std::uint64_t step) {
    static constexpr std::size_t kCounts[] = {0, 1, 14, 30, 255, 1280, 9000};
    const auto coll = static_cast<Coll>(shared_() % kColls);
    const std::size_t count = coll == Coll::barrier ? 0 : kCounts[shared_() % std::size(kCounts)];
    const int root = static_cast<int>(shared_() % static_cast<std::uint64_t>(r_.size));
    const bool blocking = shared_() % 2 == 0;
    const Model model(coll, r_.size, root, count, step);
    Case mine(model, r_.rank, false, sum_);
    const Status status = blocking ? r_.job.run(team_, mine.call) : start_and_wait(mine.call);
    EXPECT_TRUE(status.ok()) << name(status.code);
    const auto expected = model.expected(r_.rank);
    EXPECT_EQ(mine.result(expected.size()), expected)
        << name(coll) << ", thread " << thread_ << ", step " << step;
  }
  Status start_and_wait(const Call& call) {
    Operation* operation = nullptr;
    Status status = r_.job.start(team_, call, &operation);
    if (!status.ok()) return status;
    switch (own_() % 3) {
      case 0:
        status = r_.job.wait(*operation);
        break;
      case 1:
        for (std::uint32_t round = 0; !r_.job.test(*operation, &status);) r_.job.relax(round++);
        break;
      default:
        while (!r_.job.test(*operation, &status)) sched_yield();
    }
    r_.job.release(operation);
    return status;
  }

  /// Around the ring, each in its own way.
  void message(int step) {
    p2p::Messages& messages = r_.job.messages();
    const std::size_t bytes = shared_() % 5 == 0 ? 70'000 : shared_() % 3000;
    const int next = (r_.rank + 1) % r_.size, previous = (r_.rank + r_.size - 1) % r_.size;
    const std::vector<std::byte> out(bytes, byte(r_.rank, step));
    std::vector<std::byte> in(bytes);
    p2p::Transfer* sent = nullptr;
    EXPECT_TRUE(
        messages.start_send(team_, out.data(), bytes, next, thread_, SendMode::standard, &sent)
            .ok());
    Receipt receipt;
    if (own_() % 3 == 0) {
      p2p::Arrival* message = nullptr;
      EXPECT_TRUE(messages.take(team_, previous, thread_, &message).status.ok());
      receipt = messages.receive_taken(message, in.data(), bytes);
    } else {
      if (own_() % 2 == 0) {
        EXPECT_TRUE(messages.probe(team_, kAnySource, thread_).status.ok());
      }
      receipt = messages.receive(team_, in.data(), bytes, previous, thread_);
    }
    EXPECT_TRUE(receipt.status.ok());
    EXPECT_EQ(in, std::vector<std::byte>(bytes, byte(previous, step)));
    EXPECT_TRUE(messages.wait(*sent).status.ok());
    messages.release(sent);
  }
  std::byte byte(int rank, int step) const {
    return static_cast<std::byte>(rank * 37 + step * 11 + thread_);
  }

  Rank& r_;
  Team& team_;
  int thread_;
  std::mt19937_64 shared_, own_;
  Reduction sum_;
};

std::string name_of(const ::testing::TestParamInfo<WaitMode>& info) {
  constexpr const char* kNames[] = {"Automatic", "Spin", "Yield", "Sleep"};
  return kNames[static_cast<int>(info.param)];
}

class Threads : public ::testing::TestWithParam<WaitMode> {};

TEST_P(Threads, RandomProgramsMatchTheModel) {
  const std::uint64_t seed = testing::random_seed();
  std::mt19937_64 draw(seed);
  Settings settings;
  settings.wait = GetParam();
  settings.arena = std::size_t{256} << 20;
  for (const int ranks : {2, 3, 5}) {
    const int threads = 2 + static_cast<int>(draw() % (ranks == 2 ? 19 : 5));
    SCOPED_TRACE(::testing::Message()
                 << ranks << " ranks of " << threads << " threads, seed " << seed);
    test::run_threads(
        ranks, settings,
        [&](Rank& r) {
          on_threads(r, threads,
                     [&](int t, Team& team) { Strand(r, team, t, seed).run(rounds() / threads); });
        },
        true);
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Threads,
                         ::testing::Values(WaitMode::automatic, WaitMode::spin, WaitMode::yield,
                                           WaitMode::sleep),
                         name_of);

// ---- who sleeps

/// Times that the calling thread has been taken off its processor, of itself or not.
long switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

/// Thread 0 of each rank comes and goes; the last ranks' others come late, so those of rank 0 wait
/// all the time. One of them leads, and the rest sleep.
TEST(Waiting, ThreadsSleepWhileAnotherLeads) {
  constexpr int kThreads = 6, kCalls = 3000;
  Settings settings;
  settings.wait = WaitMode::yield;
  std::atomic<bool> over{false};
  std::vector<long> switched(kThreads);
  test::run_threads(
      2, settings,
      [&](Rank& r) {
        on_threads(r, kThreads, [&](int t, Team& team) {
          if (t == 0) {
            for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(r.job.run(team, Call{}).ok());
            if (r.rank == 1) over.store(true);
            return;
          }
          while (r.rank == 1 && !over.load()) usleep(1000);
          const long before = switches();
          EXPECT_TRUE(r.job.run(team, Call{}).ok());
          if (r.rank == 0) switched[static_cast<std::size_t>(t)] = switches() - before;
        });
      },
      true);
  std::sort(switched.begin() + 1, switched.end());
  for (int t = 1; t < kThreads; ++t) std::printf("%ld ", switched[static_cast<std::size_t>(t)]);
  std::printf("switches of threads that wait for one call, beside %d calls\n", kCalls);
  // All but the one that leads: a few when they begin, when they are woken, and for the lock.
  EXPECT_LT(switched[kThreads - 2], kCalls / 10);
}

/// A host that calls back, when a certain thread pumps it, and comes back when all else is over.
struct CallBack {
  std::atomic<pthread_t> whose{};
  std::atomic<bool> inside{false}, over{false};
  static void pump(void* self) {
    auto& call = *static_cast<CallBack*>(self);
    if (pthread_equal(call.whose.load(), pthread_self()) == 0) return;
    call.inside.store(true);
    while (!call.over.load()) usleep(1000);
  }
};

/// The thread that leads waits, in the call back, for one that follows.
TEST(Waiting, WhoFollowsTakesTheLeadFromWhoIsHeldUp) {
  Settings settings;
  settings.wait = WaitMode::yield;
  CallBack call;
  test::run_threads(
      2, settings,
      [&](Rank& r) {
        on_threads(r, 3, [&](int t, Team& team) {
          if (t != 0)
            while (!call.inside.load()) usleep(1000);
          if (r.rank == 1) {
            if (t != 0) usleep(20'000);  // they follow by then
            while (t == 0 && !call.over.load()) usleep(1000);
          } else if (t == 0) {
            call.whose.store(pthread_self());
          }
          EXPECT_TRUE(r.job.run(team, Call{}).ok());
          if (r.rank == 0 && t == 1) call.over.store(true);
        });
      },
      true, HostPump{&call, &CallBack::pump});
}

// ---- what goes wrong

/// Every waiting thread is told, in all kinds of wait.
void wait_in_vain(Rank& r, int thread, Team& team, Code expected) {
  Status status;
  if (thread % 3 == 0) {
    status = r.job.run(team, Call{});
  } else if (thread % 3 == 1) {
    int in = 0;
    status = r.job.messages().receive(team, &in, sizeof in, 1, thread).status;
  } else {
    Operation* operation = nullptr;
    ASSERT_TRUE(r.job.start(team, Call{}, &operation).ok());
    for (std::uint32_t round = 0; !r.job.test(*operation, &status);) r.job.relax(round++);
    r.job.release(operation);
  }
  EXPECT_EQ(status.code, expected) << "thread " << thread << ": " << name(status.code);
}

/// Threads of rank 0 run `body`, which waits until a deadline of 0.5 s has passed, and no less.
template <class Body>
void wait_for_a_deadline(int threads, const Body& body) {
  Settings settings;
  settings.wait = WaitMode::yield;
  settings.deadline_s = 0.5;
  std::atomic<bool> told{false};
  test::run_threads(
      2, settings,
      [&](Rank& r) {
        if (r.rank == 0) {
          const auto begin = std::chrono::steady_clock::now();
          on_threads(r, threads, [&](int t, Team& team) { body(r, t, team); });
          // The time that passes for several threads at once passes once; a first look counts
          // 0.1 s.
          EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(390));
          told.store(true);
        } else {
          const std::vector<Team*> teams = make_teams(r, threads);
          while (!told.load()) usleep(1000);
          for (Team* team : teams) r.job.release_team(team);
        }
      },
      true);
}

TEST(Waiting, TheDeadlineIsToldToEveryThread) {
  wait_for_a_deadline(9,
                      [](Rank& r, int t, Team& team) { wait_in_vain(r, t, team, Code::timeout); });
}

/// Also where one thread waits while another polls.
TEST(Waiting, ADeadlineCountsEachMomentOnce) {
  wait_for_a_deadline(2, [](Rank& r, int t, Team& team) {
    if (t == 0) return wait_in_vain(r, t, team, Code::timeout);
    Operation* operation = nullptr;
    Status status;
    ASSERT_TRUE(r.job.start(team, Call{}, &operation).ok());
    while (!r.job.test(*operation, &status)) continue;
    r.job.release(operation);
    EXPECT_EQ(status.code, Code::timeout) << name(status.code);
  });
}

#if !defined(__SANITIZE_THREAD__)  // which does not see processes
TEST(Waiting, ADeathIsToldToEveryThread) {
  Settings settings;
  settings.wait = WaitMode::yield;
  const auto statuses = test::run_processes(
      2, settings,
      [](Rank& r) {
        if (r.rank == 0) {
          on_threads(r, 9, [&](int t, Team& team) { wait_in_vain(r, t, team, Code::peer_lost); });
        } else {
          make_teams(r, 9);
          usleep(200'000);
          _exit(7);
        }
      },
      true);
  EXPECT_TRUE(WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == 0);
}
#endif

/// Whoever takes the lead has to wake up for what is put to its rank while all others are gone.
TEST(Waiting, TheLeadIsHandedOn) {
  constexpr int kThreads = 8;
  Settings settings;
  settings.wait = WaitMode::sleep;
  for (int round = 0; round < 20; ++round) {
    test::run_threads(
        2, settings,
        [&](Rank& r) {
          on_threads(r, kThreads, [&](int t, Team& team) {
            // One after the other, in an order that differs from that in which they have come.
            const int turn = (t * 5 + round) % kThreads;
            if (r.rank == 1) usleep(static_cast<useconds_t>(turn * 1000));
            EXPECT_TRUE(r.job.run(team, Call{}).ok());
          });
        },
        true);
  }
}

}  // namespace
}  // namespace tutti
