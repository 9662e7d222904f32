// Large messages that go both ways at once: which way is taken on a clock of the test's making, and
// that everything arrives whatever the way.
#include "p2p/crossings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "p2p/a_few_ranks.hpp"

namespace tutti {
namespace {

using p2p::Crossings;
using p2p::Episodes;
using p2p::Messages;
using p2p::Transfer;
using test::counts;
using test::pattern;
using test::Rank;

// ---- which way

constexpr std::size_t kBytes = std::size_t{256} << 10;

/// One of two ranks that send to each other at once.
struct End {
  Episodes episodes;
  Crossings peer;

  bool begin(std::size_t bytes, bool first, std::uint64_t now) {
    episodes.begin_receive();
    episodes.begin_send(now);
    return peer.send(bytes, first, episodes);
  }
  void end(bool by_kernel, std::uint64_t now) {
    peer.receive(by_kernel, episodes);
    EXPECT_FALSE(episodes.end(true));
    ASSERT_TRUE(episodes.end(false));
    episodes.end_all(now);
  }
};

/// Both of them. What an exchange takes depends on both ways.
struct Pair {
  End first, second;
  std::uint64_t now = 1, both_ns = 100, kernel_ns = 100, mixed_ns = 300;
  int by_kernel = 0, mixed = 0;

  void exchange(std::size_t bytes = kBytes) {
    const bool there = first.begin(bytes, true, now), back = second.begin(bytes, false, now);
    now += there != back ? mixed_ns : there ? kernel_ns : both_ns;
    by_kernel += there && back ? 1 : 0;
    mixed += there != back ? 1 : 0;
    first.end(back, now), second.end(there, now);
  }
  int count(int times, std::size_t bytes = kBytes) {
    by_kernel = mixed = 0;
    for (int i = 0; i < times; ++i) exchange(bytes);
    return by_kernel;
  }
};

TEST(Crossings, TheFasterWayIsTaken) {
  for (const std::size_t bytes : {Episodes::kLeast, kBytes, kBytes * 1000}) {
    Pair kernel, both;
    kernel.both_ns = 150;
    both.kernel_ns = 150;
    kernel.count(100, bytes), both.count(100, bytes);
    EXPECT_GT(kernel.count(1000, bytes), 950);
    EXPECT_LT(both.count(1000, bytes), 80);
    EXPECT_LT(kernel.mixed + both.mixed, 50);
  }
}

TEST(Crossings, ThereIsAWayBack) {
  Pair pair;
  pair.kernel_ns = 50;
  pair.count(1000);
  pair.kernel_ns = 200;
  pair.count(5000);
  EXPECT_LT(pair.count(1000), 50);
  pair.kernel_ns = 50;
  pair.count(5000);
  EXPECT_GT(pair.count(1000), 950);
}

// Where a receive is always open, no time can be measured.
TEST(Crossings, WhatHasNoEndIsNotTried) {
  Episodes episodes;
  Crossings peer;
  episodes.begin_receive();
  for (std::uint64_t now = 1; now < 10'000; now += 10) {
    episodes.begin_receive();
    episodes.begin_send(now);
    EXPECT_TRUE(peer.send(kBytes, true, episodes));
    EXPECT_FALSE(episodes.end(false));
    EXPECT_FALSE(episodes.end(true));
  }
}

// Also where it was known before that the kernel takes longer.
TEST(Crossings, AnEndThatNoLongerComesIsForgotten) {
  Pair pair;
  pair.kernel_ns = 200;
  pair.count(1000);
  EXPECT_EQ(pair.count(10), 0);
  Episodes& episodes = pair.first.episodes;
  episodes.begin_receive();  // for ever
  bool by_kernel = false;
  for (int i = 0; i < 2'000; ++i) {
    episodes.begin_send(pair.now += 10);
    by_kernel = pair.first.peer.send(kBytes, true, episodes);
    EXPECT_FALSE(episodes.end(false));
  }
  EXPECT_TRUE(by_kernel);
}

// In a ring of ranks nobody hears how the one would send to whom it sends.
TEST(Crossings, WhoIsNotAskedTriesItself) {
  for (const bool first : {true, false}) {
    Episodes episodes;
    Crossings peer;
    int by_kernel = 0;
    std::uint64_t now = 1;
    for (int i = 0; i < 1000; ++i) {
      episodes.begin_receive();
      episodes.begin_send(now);
      const bool way = peer.send(kBytes, first, episodes);
      now += way ? 50 : 100;
      by_kernel += way ? 1 : 0;
      episodes.end(true), episodes.end(false);
      episodes.end_all(now);
    }
    EXPECT_GT(by_kernel, 900);
  }
}

// All messages of an episode go one way: what it takes would say nothing of either.
TEST(Crossings, AnEpisodeHasOneWay) {
  Episodes episodes;
  Crossings peer;
  std::uint64_t now = 1;
  for (int i = 0; i < 1000; ++i) {
    episodes.begin_receive();
    episodes.begin_send(now);
    const bool way = peer.send(kBytes, true, episodes);
    for (int more = 0; more < 3; ++more) {
      episodes.begin_send(now);
      EXPECT_EQ(peer.send(kBytes << more, true, episodes), way);
    }
    for (int sends = 0; sends < 4; ++sends) EXPECT_FALSE(episodes.end(false));
    ASSERT_TRUE(episodes.end(true));
    episodes.end_all(now += way ? 50 : 100);
  }
}

// ---- what arrives

void run_crossings(int ranks, const std::function<void(Rank&)>& body, const char* fault = "") {
  Settings settings = test::settings_of(Rendezvous::automatic);
  settings.wait = WaitMode::spin;
  settings.fault = fault;
  test::run_threads(ranks, settings, body);
}

/// Likewise in processes, whose memory is not each other's.
void run_processes(int ranks, const std::function<void(Rank&)>& body) {
  Settings settings = test::settings_of(Rendezvous::automatic);
  settings.wait = WaitMode::spin;
  for (const int status : test::run_processes(ranks, settings, body)) EXPECT_EQ(status, 0);
}

/// In ways that programs use.
enum class Call { sendrecv, window, send, synchronous, persistent };

/// To the next rank and from the last one.
void shift(Rank& r, Call call, std::size_t bytes, int tag) {
  Messages& messages = r.job.messages();
  const int next = (r.rank + 1) % r.size, last = (r.rank + r.size - 1) % r.size;
  const std::vector<std::byte> out = pattern(bytes, tag * 100 + r.rank);
  std::vector<std::byte> in(bytes + 1, std::byte{1});
  if (call == Call::sendrecv) {
    const Receipt receipt =
        messages.exchange(r.team, out.data(), bytes, next, tag, in.data(), bytes, last, tag);
    ASSERT_TRUE(receipt.status.ok());
    ASSERT_EQ(receipt.bytes, bytes);
  } else if (call == Call::persistent) {
    std::vector<Transfer*> pair(2);
    ASSERT_TRUE(messages.prepare_receive(r.team, in.data(), bytes, last, tag, &pair[0]).ok());
    ASSERT_TRUE(messages
                    .prepare_send(r.team, out.data(), bytes, next, tag, SendMode::standard,
                                  &pair[1])
                    .ok());
    for (int i = 0; i < 30; ++i) {
      for (Transfer* transfer : pair) ASSERT_TRUE(messages.restart(*transfer).ok());
      for (Transfer* transfer : pair) ASSERT_TRUE(messages.wait(*transfer).status.ok());
    }
    for (Transfer* transfer : pair) messages.release(transfer);
  } else {
    std::vector<Transfer*> open(2);
    Receipt at_once;
    ASSERT_TRUE(messages
                    .receive_or_start(r.team, in.data(), bytes, last, tag, &at_once, &open[0])
                    .ok());
    if (call == Call::send) {
      ASSERT_TRUE(messages.send(r.team, out.data(), bytes, next, tag).ok());
    } else if (call == Call::synchronous) {
      ASSERT_TRUE(
          messages.send(r.team, out.data(), bytes, next, tag, SendMode::synchronous).ok());
    } else {
      ASSERT_TRUE(messages
                      .start_send(r.team, out.data(), bytes, next, tag, SendMode::standard,
                                  &open[1])
                      .ok());
    }
    for (Transfer* transfer : open) {
      if (transfer == nullptr) continue;
      messages.expect(*transfer);
      ASSERT_TRUE(messages.wait(*transfer).status.ok());
      messages.release(transfer);
    }
  }
  const std::vector<std::byte> wanted = pattern(bytes, tag * 100 + last);
  ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), in.begin()));
  ASSERT_EQ(in.back(), std::byte{1});
}

void shift_all_sizes(Rank& r, Call call) {
  for (const std::size_t bytes : {std::size_t{16'384}, std::size_t{100'001}}) {
    const auto before = counts(r);
    for (int i = 0; i < 100; ++i) shift(r, call, bytes, i);
    EXPECT_GE(counts(r).read - before.read, 8U);
    EXPECT_GE(counts(r).eager - before.eager, 8U);
  }
  for (int i = 0; i < 40; ++i) shift(r, call, std::size_t{3} << 20, i);
}

TEST(Crossing, ArrivesByEachWay) {
  for (const Call call : {Call::sendrecv, Call::window, Call::send, Call::synchronous}) {
    SCOPED_TRACE("call " + std::to_string(static_cast<int>(call)));
    run_crossings(2, [call](Rank& r) { shift_all_sizes(r, call); });
    run_processes(2, [call](Rank& r) { shift_all_sizes(r, call); });
  }
}

// Each sends to one and receives from another. How often which way depends on who is late.
TEST(Crossing, ArrivesInARing) {
  for (const Call call : {Call::sendrecv, Call::window, Call::send}) {
    run_processes(3, [call](Rank& r) {
      for (const std::size_t bytes : {std::size_t{16'384}, std::size_t{100'001}})
        for (int i = 0; i < 100; ++i) shift(r, call, bytes, i);
    });
  }
}

TEST(Crossing, ArrivesWhereRequestsAreUsedAgain) {
  run_processes(2, [](Rank& r) {
    for (const int bytes : {16'384, 100'001, 300'000})
      for (int i = 0; i < 5; ++i) shift(r, Call::persistent, static_cast<std::size_t>(bytes), i);
    EXPECT_GE(counts(r).read, 8U);
  });
}

// Nobody waits for it: its buffer is looked at when a later message has come.
TEST(Crossing, ArrivesWhereItIsGivenUp) {
  run_processes(2, [](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr std::size_t kMessage = 50'000;
    for (int i = 0; i < 100; ++i) {
      const std::vector<std::byte> out = pattern(kMessage, i + r.rank);
      std::vector<std::byte> in(kMessage);
      Transfer* transfer = nullptr;
      ASSERT_TRUE(
          messages.start_receive(r.team, in.data(), kMessage, 1 - r.rank, i, &transfer).ok());
      messages.release(transfer);
      ASSERT_TRUE(messages
                      .start_send(r.team, out.data(), kMessage, 1 - r.rank, i, SendMode::synchronous,
                                  &transfer)
                      .ok());
      ASSERT_TRUE(messages.wait(*transfer).status.ok());
      messages.release(transfer);
      test::barrier(r);
      ASSERT_EQ(in, pattern(kMessage, i + 1 - r.rank));
    }
  });
}

// Taken by a matched probe while another large receive is open.
TEST(Crossing, ArrivesThroughAMatchedProbe) {
  run_processes(2, [](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr std::size_t kMessage = 50'000;
    for (int i = 0; i < 100; ++i) {
      const std::vector<std::byte> out = pattern(kMessage, i + r.rank);
      std::vector<std::byte> in(kMessage), other(kMessage);
      std::vector<Transfer*> open(4);
      const auto send = [&](int tag, Transfer** to) {
        ASSERT_TRUE(messages
                        .start_send(r.team, out.data(), kMessage, 1 - r.rank, tag,
                                    SendMode::standard, to)
                        .ok());
      };
      ASSERT_TRUE(
          messages.start_receive(r.team, other.data(), kMessage, 1 - r.rank, 1, &open[0]).ok());
      send(0, &open[1]);
      p2p::Arrival* message = nullptr;
      ASSERT_TRUE(messages.take(r.team, 1 - r.rank, 0, &message).status.ok());
      ASSERT_TRUE(messages.start_receive_taken(message, in.data(), kMessage, &open[2]).ok());
      send(1, &open[3]);
      for (Transfer* transfer : open) {
        ASSERT_TRUE(messages.wait(*transfer).status.ok());
        messages.release(transfer);
      }
      ASSERT_EQ(in, pattern(kMessage, i + 1 - r.rank));
      ASSERT_EQ(other, in);
    }
  });
}

// There is room for a part only, whichever the way.
TEST(Crossing, WhatIsTooLongIsCutOff) {
  run_processes(2, [](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr std::size_t kMessage = 60'000, kRoom = 50'001;
    for (int i = 0; i < 100; ++i) {
      const std::vector<std::byte> out = pattern(kMessage, i + r.rank);
      std::vector<std::byte> in(kRoom + 1, std::byte{1});
      const Receipt receipt = messages.exchange(r.team, out.data(), kMessage, 1 - r.rank, i,
                                                in.data(), kRoom, 1 - r.rank, i);
      ASSERT_EQ(receipt.status.code, Code::truncated);
      ASSERT_EQ(receipt.bytes, kMessage);
      const std::vector<std::byte> wanted = pattern(kRoom, i + 1 - r.rank);
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), in.begin()));
      ASSERT_EQ(in.back(), std::byte{1});
    }
  });
}

TEST(Crossing, ArrivesWhereTheKernelRefuses) {
  for (const char* const fault :
       {"nocma", "fail:op=get:code=not_permitted:at=3:count=5",
        "fail:op=get:code=not_permitted:count=0:rank=1", "fail:op=expose:every=3:count=0"}) {
    SCOPED_TRACE(fault);
    run_crossings(
        2,
        [](Rank& r) {
          for (const Call call : {Call::sendrecv, Call::window, Call::send})
            for (int i = 0; i < 100; ++i) shift(r, call, 100'001, i);
        },
        fault);
  }
}

// One rank comes late every time; sizes differ, and small ones go in between.
TEST(Crossing, KeepsItsOrder) {
  run_crossings(2, [](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr int kMessages = 12;
    const auto size_of = [](int i) {
      return i % 3 == 1 ? std::size_t{8} : std::size_t{40'000} * (1 + static_cast<std::size_t>(i));
    };
    for (int round = 0; round < 60; ++round) {
      std::vector<std::vector<std::byte>> in, out;
      std::vector<Transfer*> open(2 * kMessages);
      for (int i = 0; i < kMessages; ++i) {
        out.push_back(pattern(size_of(i), round + 10 * i + r.rank));
        in.emplace_back(size_of(i));
      }
      if (r.rank == round % 2) std::this_thread::sleep_for(std::chrono::microseconds(300));
      const auto receive = [&](int i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_TRUE(messages
                        .start_receive(r.team, in[at].data(), in[at].size(), 1 - r.rank, 0,
                                       &open[at])
                        .ok());
      };
      for (int i = 0; i < kMessages / 2; ++i) receive(i);
      for (int i = 0; i < kMessages; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_TRUE(messages
                        .start_send(r.team, out[at].data(), out[at].size(), 1 - r.rank, 0,
                                    SendMode::standard, &open[kMessages + at])
                        .ok());
      }
      for (int i = kMessages / 2; i < kMessages; ++i) receive(i);
      for (Transfer* transfer : open) {
        messages.expect(*transfer);
        ASSERT_TRUE(messages.wait(*transfer).status.ok());
        messages.release(transfer);
      }
      for (int i = 0; i < kMessages; ++i) {
        ASSERT_EQ(in[static_cast<std::size_t>(i)],
                  pattern(size_of(i), round + 10 * i + 1 - r.rank));
      }
    }
    EXPECT_GE(counts(r).read, 8U);
  });
}

// A receive that stays open, as of one who waits for orders, and one that is cancelled.
TEST(Crossing, OpenAndCancelledReceivesHoldNothingUp) {
  run_crossings(2, [](Rank& r) {
    Messages& messages = r.job.messages();
    shift(r, Call::sendrecv, 1, 0);
    std::vector<std::byte> order(50'000);
    Transfer* waiting = nullptr;
    ASSERT_TRUE(messages
                    .start_receive(r.team, order.data(), order.size(), 1 - r.rank, 777, &waiting)
                    .ok());
    const auto before = counts(r);
    for (int i = 0; i < 100; ++i) shift(r, Call::sendrecv, 50'000, i);
    EXPECT_GE(counts(r).read - before.read, 99U);
    messages.cancel(*waiting);
    EXPECT_TRUE(messages.wait(*waiting).cancelled);
    messages.release(waiting);
    for (int i = 0; i < 100; ++i) shift(r, Call::sendrecv, 50'000, i);
    EXPECT_GE(counts(r).eager - before.eager, 8U);  // both ways are tried
  });
}

}  // namespace
}  // namespace tutti
