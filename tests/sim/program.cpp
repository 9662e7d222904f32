// Programs of point-to-point messages in virtual time: where they wait, by protocol, and what is
// not a program.
#include "sim/program.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profile.hpp"

namespace tutti::sim {
namespace {

using Kind = Action::Kind;

Action compute(double us) {
  Action action;
  action.duration = static_cast<Time>(us * kMicrosecond);
  return action;
}
Action message(Kind kind, int peer, std::size_t bytes, int request, int tag = 0) {
  Action action;
  action.kind = kind;
  action.peer = peer;
  action.bytes = bytes;
  action.request = request;
  action.tag = tag;
  return action;
}
Action wait(std::uint32_t requests, Kind kind = Kind::wait) {
  Action action;
  action.kind = kind;
  action.requests = requests;
  return action;
}

constexpr double kLong = 1000;  // microseconds; 64 KiB take 80 on ib2006
constexpr std::size_t kBytes = 65536;

constexpr int kRounds = 5;  // that count

/// Both sides start, compute and wait, and meet, again and again: the first round connects them.
ProgramTimes exchange(p2p::Protocol protocol, double sender_computes, double receiver_computes) {
  std::vector<std::vector<Action>> actions(2);
  for (int round = 0; round <= kRounds; ++round) {
    const Action waits = wait(1, round == 0 ? Kind::block : Kind::wait);
    actions[0].insert(actions[0].end(),
                      {message(Kind::send, 1, kBytes, 0), compute(sender_computes), waits});
    actions[1].insert(actions[1].end(),
                      {message(Kind::receive, 0, kBytes, 0), compute(receiver_computes), waits});
    for (const int rank : {0, 1}) {
      auto& list = actions[static_cast<std::size_t>(rank)];
      list.insert(list.end(), {message(Kind::send, 1 - rank, 8, 1, 1),
                               message(Kind::receive, 1 - rank, 8, 2, 1), wait(6, Kind::block)});
    }
  }
  ProgramTimes times;
  std::string why;
  const ProgramSpec spec{test::profile("ib2006"), 2, 1, protocol, 64};
  EXPECT_TRUE(run_program(spec, actions, &times, &why).ok()) << why;
  EXPECT_EQ(times.rendezvous, static_cast<std::uint64_t>(kRounds + 1));
  return times;
}

double mean_us(const std::vector<Time>& times, int rank) {
  return static_cast<double>(times[static_cast<std::size_t>(rank)]) / kMicrosecond / kRounds;
}

/// RNDV-2006's two tests. A message takes about 85 us.
TEST(Programs, WaitWhereTheirProtocolCannotMove) {
  const auto write = exchange(p2p::Protocol::write, kLong, 0);
  EXPECT_GT(mean_us(write.waited, 0), 60);  // the answer lies there until the sender waits
  const auto read = exchange(p2p::Protocol::read, kLong, 0);
  EXPECT_LT(mean_us(read.waited, 0), 10);
  EXPECT_GT(mean_us(read.waited, 1), 60);  // who only waits needs as long as the message

  for (const auto protocol : {p2p::Protocol::write, p2p::Protocol::read}) {
    const auto receives = exchange(protocol, 0, kLong);
    EXPECT_GT(mean_us(receives.waited, 1), 60);  // the request lies there
    EXPECT_EQ(receives.interrupts, 0u);
  }
  const auto interrupted = exchange(p2p::Protocol::read_interrupt, 0, kLong);
  EXPECT_LT(mean_us(interrupted.waited, 1), 20);
  EXPECT_GE(interrupted.interrupts, static_cast<std::uint64_t>(kRounds));
}

TEST(Programs, CountWhatBlocksApart) {
  std::vector<std::vector<Action>> actions = {
      {message(Kind::send, 1, kBytes, 3), wait(1 << 3, Kind::block)},
      {message(Kind::receive, 0, kBytes, 3), wait(1 << 3)}};
  ProgramTimes times;
  std::string why;
  const ProgramSpec spec{test::profile("ib2006"), 2, 1, p2p::Protocol::read};
  ASSERT_TRUE(run_program(spec, actions, &times, &why).ok()) << why;
  EXPECT_EQ(times.waited[0], 0u);
  EXPECT_EQ(times.blocked[1], 0u);
  EXPECT_GT(times.blocked[0], 0u);
  EXPECT_GT(times.waited[1], 0u);
  EXPECT_EQ(times.finished.size(), 2u);
}

TEST(Programs, ThatCannotRunSayWhy) {
  const Action send = message(Kind::send, 1, 10, 0), receive = message(Kind::receive, 0, 10, 0);
  const struct {
    std::vector<std::vector<Action>> actions;
    const char* why;
  } cases[] = {
      {{{send, wait(1)}}, "one list of actions for each of the 2 ranks"},
      {{{wait(1)}, {}}, "rank 0, action 0: waits for a request that is not active"},
      {{{send, send}, {}}, "rank 0, action 1: the request is still active"},
      {{{send}, {receive, wait(1)}}, "rank 0 leaves a request active"},
      {{{}, {message(Kind::send, 1, 10, 0), wait(1)}}, "the peer is another rank"},
      {{{}, {message(Kind::send, 0, 10, 32), wait(1)}}, "requests are from 0 to 31"},
      {{{}, {receive, wait(1)}}, "1 of 2 ranks wait for ever: rank 1"},
  };
  for (const auto& c : cases) {
    ProgramTimes times;
    std::string why;
    const ProgramSpec spec{test::profile("ib2006"), 2, 1, p2p::Protocol::read};
    EXPECT_FALSE(run_program(spec, c.actions, &times, &why).ok()) << c.why;
    EXPECT_NE(why.find(c.why), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace tutti::sim
