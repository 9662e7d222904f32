// The event queue against a stable sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>

#include "fabric/sim/event_queue.hpp"

namespace tutti::sim {
namespace {

TEST(EventQueue, GivesEventsInOrderOfTimeAndFirstInFirstOutAmongEquals) {
  std::mt19937_64 random(2003);
  for (int spread = 1; spread < 50; spread += 3) {
    EventQueue<int> queue;
    std::set<std::pair<std::uint64_t, int>>
        expected;  // number grows with each push, so the pair is the order
    std::uint64_t now = 0;
    int number = 0;
    for (int i = 0; i < 20000; ++i) {
      const bool pushes = expected.empty() || random() % 100 < (i < 10000 ? 60U : 30U);
      if (pushes) {
        const std::uint64_t time = now + random() % (std::uint64_t{1} << spread);
        queue.push(time, number);
        expected.emplace(time, number++);
        continue;
      }
      ASSERT_FALSE(queue.empty());
      const auto event = queue.pop();
      ASSERT_EQ(std::make_pair(event.time, event.payload), *expected.begin());
      expected.erase(expected.begin());
      now = event.time;
    }
    while (!expected.empty()) {
      const auto event = queue.pop();
      ASSERT_EQ(std::make_pair(event.time, event.payload), *expected.begin());
      expected.erase(expected.begin());
    }
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace tutti::sim
