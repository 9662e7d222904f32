// When a sleeper looks at the network again while data come in parts, against the three rules that
// parts.hpp gives: never while nothing came in vain, a quarter of the time so far after the last
// look, at most half a millisecond.
#include "fabric/nodes/parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../base/random_seed.hpp"

namespace tutti::nodes {
namespace {

constexpr std::uint64_t kUs = 1000, kMs = 1000 * kUs;

TEST(Parts, NothingIsPutOffBeforeSomethingWasInVain) {
  Parts parts;
  EXPECT_EQ(parts.pause(5 * kMs), 0u);
  parts.woken(10 * kMs);
  EXPECT_EQ(parts.pause(10 * kMs), 0u);
  EXPECT_EQ(parts.pause(10 * kMs + 100 * kUs), 0u) << "shorter than what a sleep costs";
}

TEST(Parts, AQuarterOfTheTimeThatHasBeenInVain) {
  Parts parts;
  parts.woken(10 * kMs);
  parts.woken(10 * kMs + 400 * kUs);
  EXPECT_EQ(parts.pause(10 * kMs + 400 * kUs), 100 * kUs);
  parts.woken(12 * kMs);
  EXPECT_EQ(parts.pause(12 * kMs), 500 * kUs);
  EXPECT_EQ(parts.pause(12 * kMs + 300 * kUs), 200 * kUs);
  parts.woken(20 * kMs);
  EXPECT_EQ(parts.pause(20 * kMs), 500 * kUs);
}

TEST(Parts, WhatIsOverIsNotWaitedForAgain) {
  Parts parts;
  parts.woken(10 * kMs);
  parts.woken(12 * kMs);
  EXPECT_EQ(parts.pause(12 * kMs + 500 * kUs), 0u);
  EXPECT_EQ(parts.pause(60 * kMs), 0u) << "nothing has come since, and what comes now is seen";
}

TEST(Parts, WhatIsCompleteEndsIt) {
  Parts parts;
  parts.woken(10 * kMs);
  parts.woken(12 * kMs);
  parts.moved();
  EXPECT_EQ(parts.pause(12 * kMs), 0u);
  parts.woken(13 * kMs);
  EXPECT_EQ(parts.pause(13 * kMs), 0u) << "the next transfer begins anew";
}

TEST(Parts, WhatIsFarApartIsNotOneTransfer) {
  Parts parts;
  parts.woken(10 * kMs);
  parts.woken(100 * kMs);  // such as a connection that was closed long before
  EXPECT_EQ(parts.pause(100 * kMs), 0u);
}

// A transfer of any length whose packets come at any pace: its end is found in time, and it is looked
// at for each packet of its first 200 us, then as often as a quarter more fits into 2 ms, then twice
// a millisecond.
TEST(Parts, AnyTransfer) {
  std::mt19937_64 random(tutti::testing::random_seed());
  const auto drawn = [&random](std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
  };
  constexpr std::uint64_t kQuarters = 11;  // ln(2 ms / 200 us) / ln(5 / 4)
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t packet = drawn(2, 2000) * kUs, packets = drawn(1, 3000);
    const std::uint64_t begin = 10 * kMs, end = begin + packet * (packets - 1);
    Parts parts;
    std::uint64_t now = begin, looks = 0;
    for (std::uint64_t taken = 0; taken < packets; ++looks) {
      now = std::max(now + parts.pause(now), begin + taken * packet);
      parts.woken(now);
      taken = (now - begin) / packet + 1;
    }
    const std::uint64_t length = end - begin;
    EXPECT_LE(now, end + std::min(length / 4, kMs / 2)) << packet << " ns, " << packets << " packets";
    EXPECT_LE(looks, 2 + std::min(packets, 200 * kUs / packet + kQuarters + length / (kMs / 2)))
        << packet << " ns, " << packets << " packets";
  }
}

}  // namespace
}  // namespace tutti::nodes
