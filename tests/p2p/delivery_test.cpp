// What is taken out of the rings and when, and what is handed on to whoever waits.
#include <gtest/gtest.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/a_few_ranks.hpp"
#include "p2p/balance.hpp"

namespace tutti {
namespace {

using p2p::Balance;
using p2p::Messages;
using p2p::Transfer;
using test::counts;
using test::pattern;
using test::Rank;
using test::settings_of;

/// Two ranks that have a processor each, and have talked to each other before.
template <class Body>
void run_two(Body body) {
  Settings settings = settings_of(Rendezvous::automatic);
  settings.wait = WaitMode::spin;
  test::run_threads(2, settings, [&body](Rank& r) {
    char byte = 0;
    const Receipt receipt =
        r.job.messages().exchange(r.team, &byte, 1, 1 - r.rank, 0, &byte, 1, 1 - r.rank, 0);
    ASSERT_TRUE(receipt.status.ok());
    body(r);
  });
}

/// Rank 1 sends several messages at once, of which rank 0 waits for one after the other: what it
/// has not asked for yet is left where it is, and need not be copied twice. `late_ms`: how long it
/// waits for the first, so that it looks itself, or has the engine look.
void ask_for_one_after_the_other(std::size_t bytes, long late_ms) {
  run_two([bytes, late_ms](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr int kRounds = 20, kMessages = 4;
    const std::uint64_t before = counts(r).unexpected;
    for (int round = 0; round < kRounds; ++round) {
      test::barrier(r);
      if (r.rank == 1) {
        const timespec pause{0, late_ms * 1'000'000};
        if (late_ms != 0) nanosleep(&pause, nullptr);
      }
      for (int i = 0; i < kMessages; ++i) {
        const std::vector<std::byte> data = pattern(bytes, i);
        if (r.rank == 1) {
          ASSERT_TRUE(messages.send(r.team, data.data(), bytes, 0, i).ok());
          continue;
        }
        std::vector<std::byte> got(bytes);
        Transfer* transfer = nullptr;
        ASSERT_TRUE(messages.start_receive(r.team, got.data(), bytes, 1, i, &transfer).ok());
        ASSERT_TRUE(messages.wait(*transfer).status.ok());
        messages.release(transfer);
        ASSERT_EQ(got, data);
      }
    }
    EXPECT_EQ(counts(r).unexpected - before, 0U);
  });
}

TEST(Delivery, LeavesWhatNobodyHasAskedFor) {
  for (const std::size_t bytes : {8, 1000, 12'000}) {
    ask_for_one_after_the_other(bytes, 0);
    ask_for_one_after_the_other(bytes, 5);
  }
}

// A probe looks through all that has come.
TEST(Delivery, AProbeFindsWhatHasComeLast) {
  run_two([](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr int kMessages = 100;
    const int value = 7;
    for (int i = 0; r.rank == 1 && i < kMessages; ++i)
      ASSERT_TRUE(messages.send(r.team, &value, sizeof value, 0, i).ok());
    test::barrier(r);
    if (r.rank != 0) return;
    Receipt receipt;
    EXPECT_TRUE(messages.probe_now(r.team, 1, kMessages - 1, &receipt));
    for (int i = kMessages - 1; i >= 0; --i) {
      int got = 0;
      ASSERT_TRUE(messages.receive(r.team, &got, sizeof got, 1, i).status.ok());
      ASSERT_EQ(got, value);
    }
  });
}

// ---- who waits for what is written to it

/// Sends `one` packets and takes `other`, again and again. How often both wait, of the last half.
int times_even(int one, int other, int rounds = 1'000) {
  Balance balance;
  std::uint64_t sent = 0, received = 0;
  int even = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < one; ++i, ++sent)
      even += balance.even(sent, received) && round >= rounds / 2 ? 1 : 0;
    received += static_cast<std::uint64_t>(other);
  }
  return even;
}

TEST(Balance, BothWaitWhereAsMuchComesAsGoes) {
  for (const int window : {1, 16, 64, 128}) EXPECT_EQ(times_even(window, window), 500 * window);
  EXPECT_EQ(times_even(1, 10), 500);
  EXPECT_EQ(times_even(4, 3), 2000);
}

TEST(Balance, NobodyWaitsForAWindowThatIsAnswered) {
  for (const int window : {16, 64, 128}) EXPECT_EQ(times_even(window, 1), 0);
}

TEST(Balance, IsLookedAtAgain) {
  Balance balance;
  std::uint64_t sent = 0, received = 0;
  for (; sent < 1'000; ++sent) balance.even(sent, received);
  EXPECT_FALSE(balance.even(sent, received));
  for (; sent < 2'000; ++sent, ++received) balance.even(sent, received);
  EXPECT_TRUE(balance.even(sent, received));
}

// Messages of every length up to some that are not handed on, at every place of a line.
TEST(Demotion, ChangesNothing) {
  run_two([](Rank& r) {
    Messages& messages = r.job.messages();
    for (std::size_t bytes = 0; bytes < Balance::kMost + 200; bytes += bytes < 400 ? 1 : 37) {
      const std::vector<std::byte> out = pattern(bytes, 1 + r.rank);
      std::vector<std::byte> in(bytes);
      const Receipt receipt = messages.exchange(r.team, out.data(), bytes, 1 - r.rank, 1, in.data(),
                                                bytes, 1 - r.rank, 1);
      ASSERT_TRUE(receipt.status.ok());
      ASSERT_EQ(in, pattern(bytes, 2 - r.rank)) << bytes;
    }
  });
}

}  // namespace
}  // namespace tutti
