// A rank is killed in every phase of every protocol, sending or receiving: the other one gets an
// error that names it, in bounded time, whatever it waits for.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "p2p/messages.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using p2p::Arrival;
using p2p::Messages;
using p2p::Transfer;
using test::Rank;
using Clock = std::chrono::steady_clock;

constexpr double kBound = 3;  // seconds until the survivor knows

Settings settings_of(Rendezvous rendezvous) {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  settings.deadline_s = 30;
  settings.rendezvous = rendezvous;
  settings.log = LogLevel::quiet;
  return settings;
}

/// Runs `body` on all ranks but the victim until it gives a status that is not ok: that one must
/// name the victim, in time. The victim runs `doomed`.
void survive(int ranks, int victim, const Settings& settings,
             const std::function<Status(Rank&)>& body, const std::function<void(Rank&)>& doomed) {
  const auto statuses = test::run_processes(ranks, settings, [&](Rank& r) {
    if (r.rank == victim) {
      doomed(r);
      raise(SIGKILL);
    }
    Status status;
    auto begin = Clock::now();
    for (int round = 0; round < 100'000 && status.ok(); ++round) {
      begin = Clock::now();
      status = body(r);
    }
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), kBound);
    EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
    EXPECT_EQ(status.peer, victim);
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const int status = statuses[static_cast<std::size_t>(rank)];
    if (rank == victim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << ": " << status;
    }
  }
}

/// What a victim does: more than its death takes.
void go_on_until_killed(Rank& r, const std::function<Status(Rank&)>& body) {
  for (int round = 0; round < 1'000 && body(r).ok(); ++round) {
  }
  _exit(EXIT_FAILURE);  // it lives, which survive() finds
}

struct Phase {
  const char* name;
  Rendezvous rendezvous;
  std::size_t bytes;
  bool in_parts;
};
void PrintTo(const Phase& phase, std::ostream* out) { *out << phase.name; }

class Killed : public ::testing::TestWithParam<Phase> {};

/// Rank 0 sends to rank 1 again and again; the victim dies before its N-th operation on the fabric,
/// for the first N, which cover the connection and two messages of every protocol.
TEST_P(Killed, InEveryPhase) {
  const Phase& phase = GetParam();
  for (const int victim : {0, 1}) {
    for (const int operation : {1, 2, 3, 4, 5, 6, 8, 11, 30}) {
      SCOPED_TRACE(std::to_string(victim) + " dies before operation " + std::to_string(operation));
      Settings settings = settings_of(phase.rendezvous);
      settings.fault =
          "kill:op=any:at=" + std::to_string(operation) + ":rank=" + std::to_string(victim);
      if (phase.in_parts) settings.fault += ",nocma";
      const auto talk = [&](Rank& r) {
        std::vector<std::byte> data(phase.bytes);
        Messages& messages = r.job.messages();
        if (r.rank == 0)
          return messages.send(r.team, data.data(), data.size(), 1, 0, SendMode::synchronous);
        return messages.receive(r.team, data.data(), data.size(), 0, 0).status;
      };
      survive(2, victim, settings, talk, [&talk](Rank& r) { go_on_until_killed(r, talk); });
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Killed,
                         ::testing::Values(Phase{"Eager", Rendezvous::automatic, 100, false},
                                           Phase{"Write", Rendezvous::write, 300'000, false},
                                           Phase{"Read", Rendezvous::read, 300'000, false},
                                           Phase{"ReadInterrupt", Rendezvous::read_interrupt,
                                                 300'000, false},
                                           Phase{"InParts", Rendezvous::automatic, 300'000, true}),
                         [](const auto& phase) { return phase.param.name; });

// Large messages go back and forth, through shared memory and by the kernel in halves: one of the
// two dies before it reads a part, or before it writes one, or lets the other side do so.
TEST(KilledBackAndForth, InEveryPhase) {
  const auto trip = [](Rank& r) {
    std::vector<std::byte> data(3'000'000);
    Messages& messages = r.job.messages();
    const auto send = [&] {
      return messages.send(r.team, data.data(), data.size(), 1 - r.rank, 0);
    };
    if (r.rank == 0) TUTTI_TRY(send());
    TUTTI_TRY(messages.receive(r.team, data.data(), data.size(), 1 - r.rank, 0).status);
    return r.rank == 1 ? send() : Status::success();
  };
  constexpr int kShared = 8;  // so many go through shared memory first
  constexpr int kLast = 10;    // by then, some have gone in halves
  const auto die = [&trip](int victim, const std::string& fault, bool halved) {
    Settings settings = settings_of(Rendezvous::automatic);
    settings.wait = WaitMode::spin;
    settings.deadline_s = 0;  // with one, nothing is written to a receive
    settings.fault = fault;
    SCOPED_TRACE(fault);
    const auto trip_and_count = [&](Rank& r) {
      const Status status = trip(r);
      EXPECT_TRUE(status.ok() || !halved || r.job.messages().counts().halved > 0);
      return status;
    };
    survive(2, victim, settings, trip_and_count, [&trip](Rank& r) { go_on_until_killed(r, trip); });
  };
  for (const int victim : {0, 1}) {
    const std::string of_victim = ":rank=" + std::to_string(victim);
    for (const std::string phase : {"expose", "get", "put"}) {
      for (const int time : {1, 2, 3, 4, 6, kLast}) {
        const int at = phase == "expose" ? kShared + time : time;
        die(victim, "kill:op=" + phase + ":at=" + std::to_string(at) + of_victim, time == kLast);
      }
    }
    // It dies while it writes its half, and the survivor's own one has been refused.
    constexpr int kWhole = 3;  // reads or puts before the first half
    for (const int at : {kWhole, kWhole + 1}) {
      die(victim, "kill:op=put:at=" + std::to_string(at) + of_victim +
                      ",fail:op=get:code=not_permitted:count=0:at=" + std::to_string(kWhole + 1) +
                      ":rank=" + std::to_string(1 - victim), true);
    }
  }
}

// Large messages leave while others come in, by the kernel or through shared memory: one of the two
// dies before one of its first operations, and before later ones.
TEST(KilledInAnExchange, InEveryPhase) {
  const auto die = [](int victim, std::size_t bytes, const std::string& fault) {
    Settings settings = settings_of(Rendezvous::automatic);
    settings.fault = fault;
    SCOPED_TRACE(fault + ", " + std::to_string(bytes) + " bytes");
    const auto cross = [bytes](Rank& r) {
      std::vector<std::byte> out(bytes), in(bytes);
      return r.job.messages()
          .exchange(r.team, out.data(), bytes, 1 - r.rank, 1, in.data(), bytes, 1 - r.rank, 1)
          .status;
    };
    survive(2, victim, settings, cross, [&cross](Rank& r) { go_on_until_killed(r, cross); });
  };
  for (const int victim : {0, 1}) {
    const std::string of_victim = ":rank=" + std::to_string(victim);
    for (const std::size_t bytes : {20'000, 300'000, 3'000'000}) {
      for (const int at : {1, 2, 4, 9, 40, 150}) {
        const std::string fault = "kill:op=any:at=" + std::to_string(at) + of_victim;
        die(victim, bytes, fault);
        die(victim, bytes, fault + ",nocma");
      }
      die(victim, bytes, "kill:op=get:at=2" + of_victim);
      if (HasFailure()) return;
    }
  }
}

// ---- waits for a rank that never said anything
// -------------------------------------------------------

void nothing(Rank&) {}

TEST(KilledBefore, AReceiveIsTold) {
  survive(
      2, 1, settings_of(Rendezvous::automatic),
      [](Rank& r) {
        int value = 0;
        return r.job.messages().receive(r.team, &value, sizeof value, 1, 0).status;
      },
      nothing);
}

TEST(KilledBefore, AReceiveFromAnybodyIsTold) {
  survive(
      3, 1, settings_of(Rendezvous::automatic),
      [](Rank& r) {
        int value = 0;
        return r.job.messages().receive(r.team, &value, sizeof value, kAnySource, kAnyTag).status;
      },
      nothing);
}

TEST(KilledBefore, AProbeIsTold) {
  for (const int source : {1, kAnySource}) {
    survive(
        2, 1, settings_of(Rendezvous::automatic),
        [source](Rank& r) { return r.job.messages().probe(r.team, source, 5).status; }, nothing);
  }
}

TEST(KilledBefore, ALargeSendIsTold) {
  survive(
      2, 1, settings_of(Rendezvous::automatic),
      [](Rank& r) {
        std::vector<std::byte> data(100'000);
        return r.job.messages().send(r.team, data.data(), data.size(), 1, 0);
      },
      nothing);
}

TEST(KilledBefore, PolledTransfersAreTold) {
  survive(
      2, 1, settings_of(Rendezvous::automatic),
      [](Rank& r) {
        Messages& messages = r.job.messages();
        std::vector<std::byte> data(100'000), in(100'000);
        Transfer *send = nullptr, *receive = nullptr;
        TUTTI_TRY(messages.start_receive(r.team, in.data(), in.size(), 1, 0, &receive));
        TUTTI_TRY(
            messages.start_send(r.team, data.data(), data.size(), 1, 0, SendMode::standard, &send));
        Receipt sent, received;
        for (std::uint32_t round = 0;
             !messages.test(*send, &sent) || !messages.test(*receive, &received); ++round) {
          r.job.relax(round);
        }
        messages.release(send);
        messages.release(receive);
        EXPECT_EQ(sent.status.code, Code::peer_lost);
        return received.status;
      },
      nothing);
}

TEST(KilledBefore, OthersGoOn) {
  const auto statuses = test::run_processes(3, settings_of(Rendezvous::automatic), [](Rank& r) {
    Messages& messages = r.job.messages();
    int value = r.rank, other = -1;
    if (r.rank == 2) {
      EXPECT_TRUE(messages.send(r.team, &value, sizeof value, 0, 0, SendMode::synchronous).ok());
      raise(SIGKILL);
    }
    if (r.rank == 0) {
      EXPECT_TRUE(messages.receive(r.team, &other, sizeof other, 2, 0)
                      .status.ok());  // what had arrived counts
      EXPECT_EQ(messages.receive(r.team, &other, sizeof other, 2, 0).status.code, Code::peer_lost);
      EXPECT_EQ(messages.send(r.team, &value, sizeof value, 2, 0).code, Code::peer_lost);
    }
    for (int round = 0; round < 100; ++round) {
      const Receipt receipt = messages.exchange(r.team, &value, sizeof value, 1 - r.rank, 1, &other,
                                                sizeof other, 1 - r.rank, 1);
      EXPECT_TRUE(receipt.status.ok());
      EXPECT_EQ(other, 1 - r.rank);
    }
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[1], 0);
}

TEST(Deadline, EndsAWaitForASilentRank) {
  Settings settings = settings_of(Rendezvous::automatic);
  settings.deadline_s = 0.5;
  settings.spin_us = 1000;
  const auto statuses = test::run_processes(2, settings, [](Rank& r) {
    Messages& messages = r.job.messages();
    int value = 7;
    if (r.rank == 1) {
      const auto begin = Clock::now();
      EXPECT_EQ(messages.receive(r.team, &value, sizeof value, 0, 0).status.code, Code::timeout);
      EXPECT_EQ(messages.receive(r.team, &value, sizeof value, kAnySource, 0).status.code,
                Code::timeout);
      EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 3);
    } else {
      const timespec pause{2, 0};
      nanosleep(&pause, nullptr);
    }
    // The peer was only late.
    EXPECT_TRUE(r.rank == 1 || messages.send(r.team, &value, sizeof value, 1, 9).ok());
    for (int tries = 0; r.rank == 1 && tries < 10; ++tries) {
      if (messages.receive(r.team, &value, sizeof value, 0, 9).status.ok()) break;
      EXPECT_LT(tries, 9);
    }
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

}  // namespace
}  // namespace tutti
