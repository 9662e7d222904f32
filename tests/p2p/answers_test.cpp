// How messages that go back and forth are sent: two ranks on clocks of their own making.
#include "p2p/answers.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>
#include <optional>

#include "p2p/small_answers.hpp"

namespace tutti::p2p {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;

/// Two ranks that send each other messages of which each takes as long as its way.
struct Pair {
  Answers first, second;
  std::uint64_t now = 1;
  std::uint64_t both_ns = 100, kernel_ns = 100;
  int by_kernel = 0;  // messages

  void move(bool kernel) {
    now += kernel ? kernel_ns : both_ns;
    by_kernel += kernel ? 1 : 0;
  }
  void trip(std::size_t bytes = kBytes) {
    const bool there = first.send(bytes, true, now);
    first.note_sent(bytes);
    move(there);
    second.note_matched(bytes);
    second.receive(bytes, there, now);
    const bool back = second.send(bytes, false, now);
    EXPECT_EQ(back, there) << "the other one answers as it was asked";
    second.note_sent(bytes);
    move(back);
    first.note_matched(bytes);
    first.receive(bytes, back, now);
  }
  /// Of so many messages, how many the kernel copies.
  int count(int trips) {
    by_kernel = 0;
    for (int i = 0; i < trips; ++i) trip();
    return by_kernel;
  }
};

TEST(Answers, TheFasterWayIsTaken) {
  Pair kernel, both;
  kernel.both_ns = 150;
  both.kernel_ns = 150;
  kernel.count(100), both.count(100);
  EXPECT_GT(kernel.count(1000), 2 * 950);
  EXPECT_LT(both.count(1000), 2 * 50);
}

TEST(Answers, ThereIsAWayBack) {
  Pair pair;
  pair.kernel_ns = 50;
  pair.count(1000);
  pair.kernel_ns = 200;
  pair.count(3000);
  EXPECT_LT(pair.count(1000), 2 * 50);
  pair.kernel_ns = 50;
  pair.count(3000);
  EXPECT_GT(pair.count(1000), 2 * 950);
}

// What is far slower is tried more seldom than what is nearly as fast.
TEST(Answers, ASlowWayIsTriedSeldom) {
  Pair slow, nearly;
  slow.kernel_ns = 300;
  nearly.kernel_ns = 110;
  slow.count(100), nearly.count(100);
  EXPECT_LE(slow.count(8 * 512), 2 * 2 * 16);
  EXPECT_GE(nearly.count(8 * 512), 2 * 7 * 16);
}

// MPI does not promise that it works, but it does wherever messages of this size leave at once.
// `more`: messages that one has sent to the other before, in a call that does not wait.
void both_send_first(int more_there, int more_back) {
  Answers first, second;
  for (int i = 0; i < more_there; ++i) first.note_sent(kBytes), second.note_matched(kBytes);
  for (int i = 0; i < more_back; ++i) second.note_sent(kBytes), first.note_matched(kBytes);
  for (std::uint64_t now = 1; now < 2000; now += 10) {
    const bool there = first.send(kBytes, true, now), back = second.send(kBytes, false, now);
    EXPECT_FALSE(there && back);
    first.note_sent(kBytes), second.note_sent(kBytes);
    first.note_matched(kBytes), second.note_matched(kBytes);
    first.receive(kBytes, back, now + 5), second.receive(kBytes, there, now + 5);
  }
}

TEST(Answers, OfTwoThatBothSendFirstOneDoesNotWait) {
  both_send_first(0, 0);
  both_send_first(1, 0);
  both_send_first(0, 1);
  both_send_first(3, 2);
}

/// Two messages there and two back, none of which is to be copied by the kernel.
void two_each_way(Answers& first, Answers& second, std::uint64_t& now) {
  EXPECT_FALSE(first.send(kBytes, true, now));
  for (int i = 0; i < 2; ++i) first.note_sent(kBytes), second.note_matched(kBytes);
  for (int i = 0; i < 2; ++i) {
    second.note_sent(kBytes), first.note_matched(kBytes);
    first.receive(kBytes, false, now += 5);
  }
}

// What is measured is no round trip, and the kernel is not tried.
TEST(Answers, SeveralEachWayAreNoRoundTrip) {
  Answers first, second;
  for (std::uint64_t now = 1; now < 2000;) two_each_way(first, second, now);
}

// Nor after a few round trips: a quarter of a trial must have been measured, of its second half.
TEST(Answers, AFewRoundTripsDoNotBeginATrial) {
  Pair pair;
  for (int i = 0; i < 8 + 3; ++i) pair.trip();
  for (int i = 0; i < 100; ++i) two_each_way(pair.first, pair.second, pair.now);
}

// What comes in between now and then, such as a halo exchange every so many steps.
TEST(Answers, WhatIsNotMeasuredNowAndThenDecidesNothing) {
  Pair pair;
  pair.both_ns = 150;
  pair.by_kernel = 0;
  for (int i = 1; i <= 5000; ++i) {
    pair.trip();
    if (i % 7 == 0) {
      pair.first.send(kBytes, true, pair.now);
      pair.first.note_sent(kBytes), pair.second.note_matched(kBytes);
      pair.second.note_sent(kBytes), pair.first.note_matched(kBytes);
    }
  }
  EXPECT_GT(pair.by_kernel, 2 * 4500);
}

TEST(Answers, EachSizeHasItsOwn) {
  Pair pair;
  for (int i = 0; i < 200; ++i) {
    pair.kernel_ns = 50;
    pair.trip();
    pair.kernel_ns = 200;
    pair.trip(Answers::kLeast);
  }
  pair.by_kernel = 0;
  for (int i = 0; i < 20; ++i) pair.trip(Answers::kLeast);
  EXPECT_LE(pair.by_kernel, 2 * 4);
  pair.kernel_ns = 50;
  EXPECT_GE(pair.count(20), 2 * 16);
}

TEST(Answers, OfAllLargeSizes) {
  EXPECT_FALSE(Answers::suits(Answers::kLeast - 1));
  EXPECT_TRUE(Answers::suits(Answers::kLeast));
  for (std::size_t bytes = Answers::kLeast; bytes < std::size_t{1} << 40; bytes = bytes * 2 - 1) {
    Pair pair;
    pair.kernel_ns = 50;
    for (int i = 0; i < 100; ++i) pair.trip(bytes);
    EXPECT_GE(pair.by_kernel, 2 * 68) << bytes;
  }
}

/// Two ranks that send each other small messages, in nanoseconds of each way.
struct SmallPair {
  struct Side {
    SmallAnswers answers;
    SmallAnswers::Packets packets{};
  };
  Side first, second;
  std::uint64_t now = 1;
  std::uint64_t cached_ns = 100, streaming_ns = 100;
  std::int64_t odd_ns = 0;  // that the next message takes longer, or less long
  int streamed = 0, both_streamed = 0;

  bool move(Side& from, Side& to, bool is_first, std::size_t bytes) {
    const bool streams = from.answers.choose(bytes, is_first) == Stores::streaming;
    ++from.packets.sent;
    from.answers.note_written(now, from.packets);
    now += (streams ? streaming_ns : cached_ns) + static_cast<std::uint64_t>(odd_ns);
    odd_ns = 0;
    streamed += streams ? 1 : 0;
    to.answers.receive(bytes, now, to.packets);
    ++to.packets.received;
    return streams;
  }
  void trip(std::size_t bytes = SmallAnswers::kMost) {
    const bool there = move(first, second, true, bytes);
    both_streamed += move(second, first, false, bytes) && there ? 1 : 0;
  }
  /// Of so many messages, how many streamed.
  int count(int trips, std::size_t bytes = SmallAnswers::kMost) {
    streamed = both_streamed = 0;
    for (int i = 0; i < trips; ++i) trip(bytes);
    return streamed;
  }
};
// Trips, and from one trial to the next, of the largest.
constexpr int kFirstTrial = 512, kFrom = 8192;

TEST(SmallAnswers, BothRanksTakeTheFasterStores) {
  SmallPair streaming, cached, alike;
  streaming.cached_ns = 150;
  cached.streaming_ns = 150;
  for (SmallPair* pair : {&streaming, &cached, &alike}) pair->count(kFirstTrial);
  EXPECT_GT(streaming.count(kFrom), 2 * 7'500);
  EXPECT_LT(cached.count(kFrom), 2 * 500);
  EXPECT_LT(alike.count(kFrom), 2 * 500);
}

// One rank alone shows half of what both together gain.
TEST(SmallAnswers, WhatBothGainTogetherIsKept) {
  SmallPair pair;
  pair.cached_ns = 1000;
  pair.streaming_ns = 920;
  pair.count(kFirstTrial + 3 * kFrom);
  EXPECT_GT(pair.count(kFrom), 2 * 7'500);
}

TEST(SmallAnswers, ThereIsAWayBackForEachSize) {
  SmallPair pair;
  constexpr int kLonger = 4;  // trials of the least
  pair.streaming_ns = 50;
  pair.count(kLonger * kFirstTrial, SmallAnswers::kLeast);
  pair.streaming_ns = 200;
  pair.count(kFirstTrial);
  EXPECT_EQ(pair.count(100), 0);
  EXPECT_EQ(pair.count(100, SmallAnswers::kLeast), 2 * 100);
  constexpr int kSeldom = 4;
  pair.count(kSeldom * kLonger * (kFrom + kFirstTrial), SmallAnswers::kLeast);
  EXPECT_EQ(pair.count(100, SmallAnswers::kLeast), 0);
}

// Each would measure what the other one tries.
TEST(SmallAnswers, AfterTheFirstTrialRanksTakeTurns) {
  SmallPair pair;
  pair.streaming_ns = 130;
  pair.count(kFirstTrial);
  EXPECT_GE(pair.count(2 * kFrom), 2 * 2 * 256);
  EXPECT_EQ(pair.both_streamed, 0);
}

/// One trip of the first trial takes that much longer, or less long: any of them.
void expect_nothing_decided_by(std::int64_t odd_ns) {
  for (int trip = 0; trip < kFirstTrial; ++trip) {
    SmallPair cached, streaming;
    cached.streaming_ns = 110;
    streaming.streaming_ns = 90;
    for (SmallPair* pair : {&cached, &streaming}) {
      pair->count(trip);
      pair->odd_ns = odd_ns;
      pair->count(kFirstTrial - trip);
    }
    EXPECT_EQ(cached.count(100), 0) << trip;
    EXPECT_EQ(streaming.count(100), 2 * 100) << trip;
  }
}

TEST(SmallAnswers, AnInterruptDecidesNothing) { expect_nothing_decided_by(1'000'000); }

// In which the peer did not have to be waited for: less than what such a trip can take.
TEST(SmallAnswers, ASingleFastTripDecidesNothing) { expect_nothing_decided_by(-50); }

// What either sends in between makes it longer, whatever the stores. So nothing is known of them,
// and after the trial the writer's own time decides as for other messages.
void expect_nothing_known(std::uint64_t more_there, std::uint64_t more_back) {
  SmallAnswers answers;
  SmallAnswers::Packets packets{};
  std::uint64_t now = 1;
  for (int i = 0; i < 2 * kFirstTrial; ++i) {
    const std::optional<Stores> stores = answers.choose(SmallAnswers::kMost, true);
    EXPECT_EQ(stores, i < kFirstTrial / 2 ? std::optional(Stores::cached) : std::nullopt) << i;
    ++packets.sent;
    answers.note_written(now, packets);
    packets.sent += more_there, packets.received += more_back;
    answers.receive(SmallAnswers::kMost, now += 100, packets);
    ++packets.received;
  }
}

TEST(SmallAnswers, OnlyRoundTripsAreMeasured) {
  expect_nothing_known(1, 0);
  expect_nothing_known(0, 1);
}

// So it is with an answer of another size than the question.
TEST(SmallAnswers, OfAnotherSizeAreNotMeasured) {
  SmallAnswers answers;
  std::optional<Stores> stores;
  for (std::uint64_t i = 1; i < 2 * kFirstTrial; ++i) {
    stores = answers.choose(SmallAnswers::kMost, true);
    answers.note_written(i * 100, {i, i});
    answers.receive(SmallAnswers::kLeast, i * 100 + 50, {i, i});
  }
  EXPECT_EQ(stores, std::nullopt);
}

// A program may have asked to be told of them, by a signal.
TEST(SmallAnswers, RaiseNoFloatingPointException) {
  std::feclearexcept(FE_ALL_EXCEPT);
  SmallPair().count(kFirstTrial + kFrom);
  Pair().count(1000);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), 0);
}

TEST(SmallAnswers, OnlySomeSizes) {
  EXPECT_FALSE(SmallAnswers::suits(SmallAnswers::kLeast - 1));
  EXPECT_TRUE(SmallAnswers::suits(SmallAnswers::kLeast));
  EXPECT_TRUE(SmallAnswers::suits(SmallAnswers::kMost));
  EXPECT_FALSE(SmallAnswers::suits(SmallAnswers::kMost + 1));
  EXPECT_TRUE(Answers::suits(SmallAnswers::kMost + 1));
}

}  // namespace
}  // namespace tutti::p2p
