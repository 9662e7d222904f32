// The part of the conformance suite for fabrics with datagrams. On a network that loses none.
#include <cstring>
#include <vector>

#include "fabric/conformance.hpp"

namespace tutti::test {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DatagramConformance);

namespace {

constexpr std::uint64_t kGroup[2] = {0x6772, 1}, kOther[2] = {0x6772, 2};

/// Awaits the next datagram; `*bytes` is its size.
Task next(Node& n, int group, void* out, std::size_t capacity, std::size_t* bytes) {
  Datagrams& datagrams = *n.fabric.datagrams();
  for (;;) {
    const Word& arrivals = datagrams.arrivals(group);
    const std::uint64_t seen = arrivals.load(std::memory_order_acquire);
    *bytes = datagrams.receive(group, out, capacity);
    if (*bytes != 0) co_return Status::success();
    TUTTI_REQUIRE_OK(co_await outcome(n.reached(arrivals, seen + 1)));
  }
}

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 131 + i * 7 + i / 251);
  return data;
}

/// Every rank in turn casts datagrams of all sizes, one at a time; all others get them whole.
Task cast_to_all(Node& n) {
  Datagrams& datagrams = *n.fabric.datagrams();
  const std::size_t most = n.fabric.traits().datagram_bytes;
  int group = -1;
  TUTTI_REQUIRE_OK(datagrams.join(kGroup, 5, &group));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  std::vector<std::byte> in(most);
  int round = 0;
  for (int sender = 0; sender < n.size(); ++sender) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, most - 1, most}) {
      const std::vector<std::byte> message = pattern(size, ++round);
      if (n.rank() == sender) {
        TUTTI_REQUIRE_OK(datagrams.cast(group, message.data(), size));
      } else {
        std::size_t bytes = 0;
        TUTTI_REQUIRE_OK(co_await outcome(next(n, group, in.data(), in.size(), &bytes)));
        TUTTI_REQUIRE(bytes == size);
        EXPECT_EQ(std::memcmp(in.data(), message.data(), size), 0);
      }
      TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
    }
  }
  EXPECT_EQ(datagrams.receive(group, in.data(), in.size()), 0U) << "the own ones, or twice";
  EXPECT_EQ(datagrams.counts(group).sent, 4U);
  EXPECT_EQ(datagrams.counts(group).received, 4U * static_cast<unsigned>(n.size() - 1));
  datagrams.leave(group);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(DatagramConformance, EverybodyButTheSenderGetsThemWhole) { run(4, cast_to_all); }

/// What is cast to one group is not seen in another, and not by those who have left.
Task groups_are_apart(Node& n) {
  Datagrams& datagrams = *n.fabric.datagrams();
  int group = -1, other = -1;
  TUTTI_REQUIRE_OK(datagrams.join(kGroup, 5, &group));
  TUTTI_REQUIRE_OK(datagrams.join(kOther, 5, &other));
  EXPECT_NE(group, other);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  const int mine = 42;
  int value = 0;
  std::size_t bytes = 0;
  if (n.rank() == 0) TUTTI_REQUIRE_OK(datagrams.cast(group, &mine, sizeof mine));
  if (n.rank() != 0) {
    TUTTI_REQUIRE_OK(co_await outcome(next(n, group, &value, sizeof value, &bytes)));
    EXPECT_EQ(value, 42);
    EXPECT_EQ(datagrams.receive(other, &value, sizeof value), 0U);
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  // Who has left gets no more, and may come back.
  if (n.rank() == 1) datagrams.leave(group);
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 0) TUTTI_REQUIRE_OK(datagrams.cast(group, &mine, sizeof mine));
  if (n.rank() == 2)
    TUTTI_REQUIRE_OK(co_await outcome(next(n, group, &value, sizeof value, &bytes)));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 1) {
    EXPECT_EQ(datagrams.receive(group, &value, sizeof value), 0U);
    TUTTI_REQUIRE_OK(datagrams.join(kGroup, 5, &group));
    EXPECT_EQ(datagrams.receive(group, &value, sizeof value), 0U);
  }
  datagrams.leave(group);
  datagrams.leave(other);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(DatagramConformance, GroupsAreApart) { run(3, groups_are_apart); }

/// A datagram that is longer than there is room for is dropped and counted; the next one comes.
Task dropped_if_too_long(Node& n) {
  Datagrams& datagrams = *n.fabric.datagrams();
  int group = -1;
  TUTTI_REQUIRE_OK(datagrams.join(kGroup, 5, &group));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 0) {
    const std::vector<std::byte> data = pattern(64, 1);
    TUTTI_REQUIRE_OK(datagrams.cast(group, data.data(), 64));
    TUTTI_REQUIRE_OK(datagrams.cast(group, data.data(), 8));
  } else {
    std::byte in[8];
    std::size_t bytes = 0;
    TUTTI_REQUIRE_OK(co_await outcome(next(n, group, in, sizeof in, &bytes)));
    EXPECT_EQ(bytes, 8U);
    EXPECT_EQ(datagrams.counts(group).dropped, 1U);
  }
  datagrams.leave(group);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(DatagramConformance, WhatIsTooLongIsDroppedAndCounted) { run(2, dropped_if_too_long); }

Task refused(Node& n) {
  Datagrams& datagrams = *n.fabric.datagrams();
  const std::size_t most = n.fabric.traits().datagram_bytes;
  std::vector<std::byte> large(most + 1);
  int group = -7;
  EXPECT_EQ(datagrams.join(kGroup, 0, &group).code, Code::invalid_argument);
  EXPECT_EQ(group, -7) << "set although it failed";
  TUTTI_REQUIRE_OK(datagrams.join(kGroup, 1, &group));
  int again = -7;
  EXPECT_EQ(datagrams.join(kGroup, 1, &again).code, Code::invalid_argument);
  EXPECT_EQ(datagrams.cast(group, large.data(), large.size()).code, Code::truncated);
  for (const int stranger : {-1, group + 1, 1 << 30}) {
    EXPECT_EQ(datagrams.cast(stranger, large.data(), 1).code, Code::invalid_argument) << stranger;
    EXPECT_EQ(datagrams.receive(stranger, large.data(), 1), 0U) << stranger;
    datagrams.leave(stranger);
  }
  datagrams.leave(group);
  EXPECT_EQ(datagrams.cast(group, large.data(), 1).code, Code::invalid_argument);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(DatagramConformance, WhatCannotBeIsRefused) { run(2, refused); }

/// A receiver that sleeps is woken by each of many, whether it waits already or not.
Task woken(Node& n) {
  Datagrams& datagrams = *n.fabric.datagrams();
  constexpr int kRounds = 300;
  int group = -1;
  TUTTI_REQUIRE_OK(datagrams.join(kGroup, 5, &group));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (int i = 0; i < kRounds; ++i) {
    // The caster is the last who got one, so that nobody's buffers run over.
    if (n.rank() == i % 2) {
      TUTTI_REQUIRE_OK(datagrams.cast(group, &i, sizeof i));
    } else {
      int value = -1;
      std::size_t bytes = 0;
      TUTTI_REQUIRE_OK(co_await outcome(next(n, group, &value, sizeof value, &bytes)));
      TUTTI_REQUIRE(value == i);
    }
  }
  datagrams.leave(group);
  co_await n.barrier();
  co_return Status::success();
}

TEST_P(DatagramConformance, WhoWaitsIsWoken) { run(2, woken); }

}  // namespace
}  // namespace tutti::test
