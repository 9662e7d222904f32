// When the progress thread works, and what wakes it (RNDV-2006: hybrid progress, selective
// interrupts): within a node, and between two, where a thread of the network is counted too.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "core/job.hpp"
#include "fabric/nodes/nodes.hpp"
#include "p2p/messages.hpp"
#include "p2p/networks.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using p2p::Messages;
using p2p::Transfer;
using test::Rank;
using Clock = std::chrono::steady_clock;

/// Where the two ranks are.
enum class Place { one_node, two_nodes };
void PrintTo(Place place, std::ostream* out) {
  *out << (place == Place::one_node ? "OneNode" : "TwoNodes");
}

void run_pair(Place place, Rendezvous rendezvous, const test::Body& body) {
  Settings settings;
  settings.arena = test::kArenaBetween;
  settings.deadline_s = 60;
  settings.p2p = Switch::on;
  settings.rendezvous = rendezvous;
  if (place == Place::two_nodes) return test::run_nodes({0, 1}, settings, body, test::open_between);
  test::run_threads(2, settings, body);
}

void barrier(Rank& r) { ASSERT_TRUE(r.job.run(r.team, Call{}).ok()); }

Engine& engine_of(Rank& r) { return static_cast<JobImpl&>(r.job).engine(); }

/// What the threads beside the application have done.
struct Woken {
  ProgressCounts progress;
  std::uint64_t network = 0;  // times that something from outside woke the network's thread

  std::uint64_t all() const { return progress.rung + network; }
};

Woken woken(Rank& r) {
  auto* nodes = dynamic_cast<nodes::NodesFabric*>(&engine_of(r).fabric());
  return {engine_of(r).background().counts(), nodes != nullptr ? nodes->interrupts() : 0};
}

void sleep_ms(long ms) {
  const timespec pause{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

class Progress : public ::testing::TestWithParam<Place> {
 protected:
  bool apart() const { return GetParam() == Place::two_nodes; }
};
INSTANTIATE_TEST_SUITE_P(On, Progress, ::testing::Values(Place::one_node, Place::two_nodes),
                         ::testing::PrintToStringParamName());

/// Returns when the progress thread goes to sleep for what is pending: what comes then interrupts
/// it. Before, it may be awake still, and find what has come by itself.
void await_sleep(Rank& r) {
  const std::uint64_t before = woken(r).progress.sleeps;
  for (int i = 0; i < 10'000 && woken(r).progress.sleeps == before; ++i) sleep_ms(1);
  EXPECT_GT(woken(r).progress.sleeps, before);
}

/// What rank 1 sees of a large message that comes while it computes (here: sleeps, so that there is
/// a core).
struct Seen {
  Clock::time_point sent, computed;  // when the sender was done, and when the computation was
  Woken before, after;               // at the receiver, around its computation
  bool there = false;                // after the computation, without any call
};

Seen compute_while_receiving(Place place, Rendezvous rendezvous, int messages_at_once,
                             std::size_t first_bytes = 1 << 20) {
  Seen seen;
  constexpr std::size_t kBytes = 1 << 20;
  const std::size_t total = first_bytes + kBytes * static_cast<std::size_t>(messages_at_once - 1);
  std::atomic<bool> computing{false};  // the receiver is in no call any more
  run_pair(place, rendezvous, [&](Rank& r) {
    Messages& messages = r.job.messages();
    std::vector<std::byte> data(first_bytes, std::byte{5}), in(total);
    const auto bytes_of = [&](std::size_t i) { return i == 0 ? first_bytes : kBytes; };
    const auto place_of = [&](std::size_t i) {
      return i == 0 ? 0 : first_bytes + (i - 1) * kBytes;
    };
    char byte = 0;  // connected before
    ASSERT_TRUE(
        messages.exchange(r.team, &byte, 1, 1 - r.rank, 0, &byte, 1, 1 - r.rank, 0).status.ok());
    if (r.rank == 0) {
      barrier(r);
      while (!computing) sleep_ms(1);
      std::vector<Transfer*> sends(static_cast<std::size_t>(messages_at_once));
      for (std::size_t i = 0; i < sends.size(); ++i) {
        ASSERT_TRUE(
            messages
                .start_send(r.team, data.data(), bytes_of(i), 1, 1, SendMode::standard, &sends[i])
                .ok());
      }
      for (auto& send : sends) {
        EXPECT_TRUE(messages.wait(*send).status.ok());
        messages.release(send);
      }
      seen.sent = Clock::now();
      barrier(r);
    } else {
      std::vector<Transfer*> receives(static_cast<std::size_t>(messages_at_once));
      for (std::size_t i = 0; i < receives.size(); ++i) {
        ASSERT_TRUE(
            messages.start_receive(r.team, in.data() + place_of(i), bytes_of(i), 0, 1, &receives[i])
                .ok());
      }
      barrier(r);
      seen.before = woken(r);
      if (rendezvous == Rendezvous::read_interrupt) await_sleep(r);
      computing = true;
      const auto all_there = [&] {
        return std::none_of(receives.begin(), receives.end(),
                            [](Transfer* t) { return t->active(); });
      };
      // As long as it takes where the messages should come by themselves; else long enough to.
      const int most = rendezvous == Rendezvous::read_interrupt ? 200 : 4;
      for (int slice = 0; slice < 4 || (slice < most && !all_there()); ++slice) sleep_ms(100);
      seen.after = woken(r);
      seen.there = all_there();
      sleep_ms(200);  // the sender hears of it
      seen.computed = Clock::now();
      for (Transfer* receive : receives) {
        EXPECT_TRUE(messages.wait(*receive).status.ok());
        messages.release(receive);
      }
      EXPECT_EQ(std::count(in.begin(), in.end(), std::byte{5}),
                static_cast<std::ptrdiff_t>(in.size()));
      barrier(r);
    }
  });
  return seen;
}

TEST_P(Progress, AnInterruptReceivesWhileTheReceiverComputes) {
  const Seen seen = compute_while_receiving(GetParam(), Rendezvous::read_interrupt, 1);
  EXPECT_TRUE(seen.there);
  EXPECT_LT(seen.sent, seen.computed);
  EXPECT_GE(seen.after.all() - seen.before.all(), 1u);
  // Rings: the message, and its end. A thread that is not needed any more is not woken at all.
  // Over a network the data comes in pieces.
  if (!apart()) {
    EXPECT_LE(seen.after.all() - seen.before.all(), 2u);
  }
}

TEST_P(Progress, WithoutInterruptsTheReceiverMustCome) {
  for (const Rendezvous rendezvous : {Rendezvous::read, Rendezvous::write}) {
    const Seen seen = compute_while_receiving(GetParam(), rendezvous, 1);
    EXPECT_FALSE(seen.there);
    EXPECT_GT(seen.sent, seen.computed);
    // No thread has anything to do. (It may have sent the first byte while the ranks connected.)
    EXPECT_EQ(seen.after.progress.sleeps, seen.before.progress.sleeps);
    EXPECT_EQ(seen.after.progress.handled, seen.before.progress.handled);
  }
}

/// How many more wake-ups rank 1 has while it computes and rank 0 sends small messages than in as
/// long a time without them; at rank 1. Ranks ask now and then whether others live, which may fall
/// into either time, so the one in the middle of three rounds counts.
std::int64_t woken_by_small_messages(Rank& r, std::atomic<int>& phase) {
  constexpr int kSmall = 200;
  Messages& messages = r.job.messages();
  char byte = 0;
  std::int64_t more[3] = {};
  for (std::int64_t& its_more : more) {
    phase.store(0);
    barrier(r);
    sleep_ms(30);  // the receiver has gone computing
    if (r.rank == 0) {
      for (int i = 0; i < kSmall; ++i) sleep_ms(1);
      phase.store(1);
      for (int i = 0; i < kSmall; ++i) {
        EXPECT_TRUE(messages.send(r.team, &byte, 1, 1, 99).ok());
        sleep_ms(1);
      }
      phase.store(2);
    } else {
      const std::uint64_t begin = woken(r).all();
      while (phase.load() < 1) sleep_ms(1);
      const std::uint64_t between = woken(r).all();
      while (phase.load() < 2) sleep_ms(1);
      const std::uint64_t end = woken(r).all();
      its_more =
          static_cast<std::int64_t>(end - between) - static_cast<std::int64_t>(between - begin);
      for (int i = 0; i < kSmall; ++i)
        EXPECT_TRUE(messages.receive(r.team, &byte, 1, 0, 99).status.ok());
    }
    barrier(r);
  }
  std::sort(std::begin(more), std::end(more));
  return more[1];
}

/// Small messages leave all threads asleep while the receiver computes, whether one waits for a
/// large message or not; the large one then wakes it.
TEST_P(Progress, InterruptsAreSelective) {
  std::atomic<int> phase{0};
  run_pair(GetParam(), Rendezvous::read_interrupt, [&](Rank& r) {
    Messages& messages = r.job.messages();
    std::vector<std::byte> data(1 << 20, std::byte{5}), in(1 << 20);
    const std::int64_t idle = woken_by_small_messages(r, phase);
    Transfer* large = nullptr;
    if (r.rank == 1) {
      ASSERT_TRUE(messages.start_receive(r.team, in.data(), in.size(), 0, 1, &large).ok());
    }
    const std::int64_t pending = woken_by_small_messages(r, phase);
    if (r.rank == 0) {
      ASSERT_TRUE(messages.send(r.team, data.data(), data.size(), 1, 1).ok());
    } else {
      EXPECT_LE(idle, 2) << "nothing pending";
      EXPECT_LE(pending, 2) << "a large one pending";
      for (int i = 0; i < 2000 && large->active(); ++i) sleep_ms(10);
      EXPECT_FALSE(large->active()) << "the large one has woken nobody";
      EXPECT_TRUE(messages.wait(*large).status.ok());
      messages.release(large);
      EXPECT_EQ(in, data);
    }
  });
}

TEST_P(Progress, InterruptsAreSuppressed) {
  // While the thread reads the first, large one, twenty others are announced.
  const Seen seen =
      compute_while_receiving(GetParam(), Rendezvous::read_interrupt, 21, test::kArenaBetween / 2);
  EXPECT_TRUE(seen.there);
  if (!apart()) {
    EXPECT_LE(seen.after.all() - seen.before.all(), 10u);
  }
}

TEST_P(Progress, NothingPendingNothingRuns) {
  run_pair(GetParam(), Rendezvous::read_interrupt, [](Rank& r) {
    Messages& messages = r.job.messages();
    std::vector<std::byte> data(100'000);
    Transfer* transfer = nullptr;
    ASSERT_TRUE((r.rank == 0
                     ? messages.start_send(r.team, data.data(), data.size(), 1, 0,
                                           SendMode::standard, &transfer)
                     : messages.start_receive(r.team, data.data(), data.size(), 0, 0, &transfer))
                    .ok());
    ASSERT_TRUE(messages.wait(*transfer).status.ok());
    messages.release(transfer);
    barrier(r);
    sleep_ms(20);
    const Woken before = woken(r);
    for (int i = 0; i < 1000; ++i) {  // small messages, and nothing large outstanding
      char byte = 0;
      ASSERT_TRUE(
          messages.exchange(r.team, &byte, 1, 1 - r.rank, 1, &byte, 1, 1 - r.rank, 1).status.ok());
    }
    sleep_ms(50);
    const Woken after = woken(r);
    EXPECT_EQ(after.progress.sleeps, before.progress.sleeps);
    EXPECT_EQ(after.progress.handled, before.progress.handled);
    barrier(r);
  });
}

TEST_P(Progress, CanBeSwitchedWhileAMessageIsAwaited) {
  run_pair(GetParam(), Rendezvous::read_interrupt, [](Rank& r) {
    Messages& messages = r.job.messages();
    Engine& engine = engine_of(r);
    std::vector<std::byte> data(1 << 20, std::byte{3}), in(1 << 20);
    for (const bool on : {false, true}) {
      engine.background().set_thread(on, -1);
      Transfer* transfer = nullptr;
      if (r.rank == 1) {
        ASSERT_TRUE(messages.start_receive(r.team, in.data(), in.size(), 0, 0, &transfer).ok());
      }
      barrier(r);
      if (r.rank == 0) {
        ASSERT_TRUE(
            messages
                .start_send(r.team, data.data(), data.size(), 1, 0, SendMode::standard, &transfer)
                .ok());
      }
      sleep_ms(200);
      EXPECT_TRUE(r.rank == 0 || transfer->active() == !on);
      EXPECT_TRUE(messages.wait(*transfer).status.ok());
      messages.release(transfer);
      barrier(r);
    }
    EXPECT_TRUE(r.rank == 0 || in == data);
  });
}

}  // namespace
}  // namespace tutti
