// The network that the lab's switch plays, in a time of the test's own.
#include "lab/network.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tutti::lab {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;
constexpr int kShapedFrom = 1;

std::shared_ptr<const Frame> frame_of(std::size_t bytes, std::uint8_t number = 0) {
  return std::make_shared<const Frame>(Frame{std::vector<std::uint8_t>(10 + bytes, number), bytes});
}

/// All deliveries, each taken when it is due.
std::vector<Delivery> drain(Network& network) {
  std::vector<Delivery> all;
  Delivery delivery;
  while (network.next_due() >= 0) {
    const Nanoseconds due = network.next_due();
    EXPECT_FALSE(network.next(due - 1, &delivery));
    while (network.next(due, &delivery)) all.push_back(delivery);
  }
  return all;
}

/// Numbers of the frames (of `count` from port 1 to port 2) that arrived, in order of arrival.
std::vector<int> arrivals(const Conditions& conditions, int count, int from = 1) {
  Network network(4, kShapedFrom, conditions);
  for (int i = 0; i < count; ++i)
    network.submit(from, 3, frame_of(100, static_cast<std::uint8_t>(i)), i * kMicrosecond);
  std::vector<int> numbers;
  for (const Delivery& delivery : drain(network)) numbers.push_back(delivery.frame->bytes.back());
  return numbers;
}

TEST(LabNetwork, DelaysByTheLatency) {
  Network network(3, kShapedFrom, {.latency = 500 * kMicrosecond});
  network.submit(1, 2, frame_of(1000), 7);
  const auto all = drain(network);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].due, 7 + 500 * kMicrosecond);
  EXPECT_EQ(all[0].from, 1);
  EXPECT_EQ(all[0].to, 2);
}

TEST(LabNetwork, CountsAFramesBytesOnceWhereTheWayIsFree) {
  Network network(3, kShapedFrom, {.latency = 100 * kMicrosecond, .bits_per_second = 1e9});
  network.submit(1, 2, frame_of(1250), 0);  // 10 us at 1 Gbit/s
  network.submit(1, 2, frame_of(1250), 0);
  const auto all = drain(network);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].due, 110 * kMicrosecond);
  EXPECT_EQ(all[1].due, 120 * kMicrosecond);
}

TEST(LabNetwork, SendersShareTheReceiversLink) {
  Network network(5, kShapedFrom, {.bits_per_second = 1e9});
  for (int from = 1; from <= 3; ++from) network.submit(from, 4, frame_of(12500), 0);  // 100 us each
  const auto all = drain(network);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].due, 300 * kMicrosecond);
}

TEST(LabNetwork, AQueueAtTheSenderDoesNotReserveTheReceiver) {
  Network network(4, kShapedFrom, {.bits_per_second = 1e9});
  network.submit(1, 2, frame_of(12500), 0);
  network.submit(1, 3, frame_of(12500), 0);  // leaves port 1 at 100 us
  network.submit(2, 3, frame_of(1250), 0);   // finds port 3 free before that
  const auto all = drain(network);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].from, 2);
  EXPECT_EQ(all[0].due, 10 * kMicrosecond);
  EXPECT_EQ(all[2].due, 200 * kMicrosecond);
}

TEST(LabNetwork, TheLaunchersPortIsNotShaped) {
  Network network(3, kShapedFrom,
                  {.latency = 500 * kMicrosecond, .bits_per_second = 1e6, .loss = 1});
  network.submit(0, 2, frame_of(1000), 5);
  network.submit(2, 0, frame_of(1000), 5);
  const auto all = drain(network);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].due, 5);
  EXPECT_EQ(all[1].due, 5);
}

TEST(LabNetwork, LossDependsOnTheSeedAlone) {
  const Conditions one{.latency = 10 * kMicrosecond, .loss = 0.2, .seed = 1};
  Conditions slower = one, other = one;
  slower.latency = 900 * kMicrosecond;
  other.seed = 2;
  const auto numbers = arrivals(one, 200);
  EXPECT_EQ(numbers, arrivals(slower, 200));
  EXPECT_NE(numbers, arrivals(other, 200));
  EXPECT_NE(numbers, arrivals(one, 200, 2)) << "two links lose the same frames";
  EXPECT_GT(numbers.size(), 135u);  // 160 expected; 4.4 standard deviations
  EXPECT_LT(numbers.size(), 185u);
}

TEST(LabNetwork, LossIsCounted) {
  Network network(3, kShapedFrom, {.loss = 1});
  for (int i = 0; i < 5; ++i) network.submit(1, 2, frame_of(100), 0);
  EXPECT_TRUE(drain(network).empty());
  EXPECT_EQ(network.counters(1, 2).lost, 5u);
  EXPECT_EQ(network.counters(1, 2).frames, 0u);
  EXPECT_EQ(network.counters(2, 1).lost, 0u);
}

TEST(LabNetwork, Duplicates) {
  EXPECT_EQ(arrivals({.duplicate = 1}, 50).size(), 100u);
  EXPECT_EQ(arrivals({.duplicate = 0.5, .seed = 3}, 50),
            arrivals({.duplicate = 0.5, .seed = 3}, 50));
}

TEST(LabNetwork, ReordersAndLosesNothing) {
  const auto numbers = arrivals({.latency = 50 * kMicrosecond, .reorder = 0.2, .seed = 5}, 200);
  EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 200u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  const auto straight = arrivals({.latency = 50 * kMicrosecond}, 200);
  EXPECT_TRUE(std::is_sorted(straight.begin(), straight.end()));
}

TEST(LabNetwork, CutAndHeal) {
  Network network(4, kShapedFrom, {.latency = 10});
  network.submit(1, 2, frame_of(100), 0);
  network.cut(2, true);  // under way, and lost
  network.submit(1, 2, frame_of(100), 0);
  network.submit(1, 3, frame_of(100), 0);
  EXPECT_EQ(drain(network).size(), 1u);
  EXPECT_EQ(network.counters(1, 2).cut, 2u);
  network.cut(2, false);
  network.cut_link(1, 3, true);
  network.submit(1, 2, frame_of(100), 100);
  network.submit(3, 1, frame_of(100), 100);
  network.submit(3, 2, frame_of(100), 100);
  EXPECT_EQ(drain(network).size(), 2u);
  EXPECT_EQ(network.counters(3, 1).cut, 1u);
}

TEST(LabNetwork, QueuesAreBounded) {
  Network network(3, kShapedFrom, {.bits_per_second = 1e6});
  for (int i = 0; i < 1000; ++i) network.submit(1, 2, frame_of(12500), 0);  // 0.1 s each
  const LinkCounters& counters = network.counters(1, 2);
  EXPECT_LT(drain(network).size(), 40u);
  EXPECT_EQ(counters.frames + counters.overflowed, 1000u);
}

TEST(LabNetwork, AMulticastIsOneFrameOnItsSendersCable) {
  Network network(4, kShapedFrom, {.latency = 1000, .bits_per_second = 8e9});  // a byte takes 1 ns
  const auto frame = frame_of(500);
  for (const int to : {0, 2, 3}) network.submit(1, to, frame, 0);
  network.submit(1, 2, frame_of(300), 0);
  const auto deliveries = drain(network);
  ASSERT_EQ(deliveries.size(), 4u);
  EXPECT_EQ(deliveries[1].due, 1500);
  EXPECT_EQ(deliveries[2].due, 1500) << "as if it had been sent twice";
  EXPECT_EQ(deliveries[3].due, 1800);
  EXPECT_EQ(network.counters(1).sent, 800u);
  EXPECT_EQ(network.counters(1).received, 0u);
  EXPECT_EQ(network.counters(2).received, 800u);
  EXPECT_EQ(network.counters(3).received, 500u);
  network.reset_counters();
  EXPECT_EQ(network.counters(1).sent, 0u);
}

TEST(LabNetwork, CountsBytesAndForgetsThemOnReset) {
  Network network(3, kShapedFrom, {});
  network.submit(1, 2, frame_of(100), 0);
  network.submit(1, 2, frame_of(200), 0);
  drain(network);
  EXPECT_EQ(network.counters(1, 2).bytes, 300u);
  network.reset_counters();
  EXPECT_EQ(network.counters(1, 2).bytes, 0u);
}

}  // namespace
}  // namespace tutti::lab
