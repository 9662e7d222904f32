// What is taken out of the rings and when, and what is handed on to whoever waits.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
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
    ASSERT_NO_FATAL_FAILURE(test::greet(r));
    body(r);
  });
}

/// Rank 1 sends several messages at once, of which rank 0 waits for one after the other: what it
/// has not asked for yet is left where it is, and need not be copied twice. `late_ms`: how long it
/// waits for the first, so that it looks itself, or has the engine look.
void ask_for_one_after_the_other(std::size_t bytes, int late_ms) {
  std::atomic<int> asked{0};  // rounds in which rank 0 has done so
  run_two([bytes, late_ms, &asked](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr int kRounds = 20, kMessages = 4;
    const std::uint64_t before = counts(r).unexpected;
    for (int round = 0; round < kRounds; ++round) {
      if (r.rank == 1) {
        while (asked.load() <= round) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
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
        if (i == 0) asked.store(round + 1);
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

/// Rank 0 has taken the first of two messages of rank 1 when it cannot reach that any more. True
/// when the loss came there, and not before or never.
bool lose_in_between(int put) {
  Settings settings = settings_of(Rendezvous::automatic);
  settings.fault = "fail:op=put:code=peer_lost:rank=0:peer=1:at=" + std::to_string(put);
  std::atomic<bool> asked{false}, sent{false}, lost{false};
  test::run_nodes({0, 1}, settings, [&](Rank& r) {
    Messages& messages = r.job.messages();
    int value = 7;
    if (r.rank == 1) {
      while (!asked.load()) std::this_thread::yield();
      for (const int tag : {1, 2}) static_cast<void>(messages.send(r.team, &value, 4, 0, tag));
      sent.store(true);
      return;
    }
    int first = 0, second = 0;
    Transfer* transfer = nullptr;
    const Status begun = messages.start_receive(r.team, &first, 4, 1, 1, &transfer);
    asked.store(true);
    while (!sent.load()) std::this_thread::yield();
    if (!begun.ok()) return;
    Engine& engine = static_cast<JobImpl&>(r.job).engine();
    for (int i = 0; i < 20; ++i) {  // until both are there
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Engine::Guard guard(engine);
      engine.fabric().progress();
    }
    const Status taken = messages.wait(*transfer).status;
    messages.release(transfer);
    for (int i = 0; i < 8 && taken.ok() && !lost.load(); ++i)
      lost.store(messages.send(r.team, &value, 4, 1, 3).code == Code::peer_lost);
    if (!lost.load()) return;
    EXPECT_TRUE(messages.receive(r.team, &second, 4, 1, 2).status.ok());
    EXPECT_EQ(second, 7);
    EXPECT_EQ(messages.receive(r.team, &second, 4, 1, 2).status.code, Code::peer_lost);
  });
  return lost.load();
}

TEST(Delivery, WhatALostPeerHasSentCounts) {
  int times = 0;
  for (int put = 1; put <= 8; ++put) times += lose_in_between(put) ? 1 : 0;
  EXPECT_GT(times, 0);
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
