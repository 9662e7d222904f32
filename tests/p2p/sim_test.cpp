// Messages in virtual time: the same random programs over the sim fabric, on a node each, on one
// node and two to a node, and what the protocols cost there.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "p2p/program.hpp"
#include "sim/job.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

using p2p::Messages;
using p2p::Transfer;
using test::Program;

/// Ranks of a simulated machine that exchange messages, driven from outside: a step for each rank,
/// then the world until nothing happens any more.
class Machine {
 public:
  struct Rank {
    Rank(sim::SimFabric& its_fabric, const p2p::Options& options)
        : fabric(its_fabric),
          engine(its_fabric, WaitPolicy{}, HostPump{}, false),
          heap(its_fabric, Directory::bytes()),
          messages(engine, heap, options),
          blocks(heap, 65536, 1 << 20),
          resources{engine, heap, directory, blocks} {}
    sim::SimFabric& fabric;
    Engine engine;
    ArenaHeap heap;
    Directory directory;
    Messages messages;
    BlockPool blocks;
    TeamResources resources;
    std::unique_ptr<Team> forward, backward;
  };

  Machine(int nodes, int ranks_per_node, const p2p::Options& options) {
    std::string message;
    const sim::WorldSpec spec{nodes, ranks_per_node, sim::test::profile("via2003"), false,
                              std::size_t{64} << 20};
    EXPECT_TRUE(sim::World::create(spec, &world_, &message).ok()) << message;
    world_->on_lost = sim::SimJob::depends_on;
    for (int i = 0; i < size(); ++i) {
      forward_.push_back(i);
      backward_.push_back(size() - 1 - i);
    }
    for (int i = 0; i < size(); ++i) {
      auto& rank = *ranks_.emplace_back(std::make_unique<Rank>(world_->fabric(i), options));
      EXPECT_TRUE(Directory::create(rank.fabric, &rank.directory).ok());
      EXPECT_TRUE(rank.messages.open().ok());
      const std::uint64_t first[2] = {1, 1}, second[2] = {1, 2};
      EXPECT_TRUE(
          Team::create(rank.resources, first, i, size(), forward_.data(), true, &rank.forward)
              .ok());
      EXPECT_TRUE(Team::create(rank.resources, second, size() - 1 - i, size(), backward_.data(),
                               true, &rank.backward)
                      .ok());
    }
  }
  ~Machine() {
    for (auto& rank : ranks_) {
      rank->messages.forget(*rank->forward);
      rank->messages.forget(*rank->backward);
    }
  }

  int size() const { return world_->ranks(); }
  Rank& rank(int i) { return *ranks_[static_cast<std::size_t>(i)]; }
  sim::World& world() { return *world_; }
  /// Runs `step` on every rank, then everything that follows from it.
  template <class Step>
  void everybody(Step step) {
    for (int i = 0; i < size(); ++i) {
      rank(i).fabric.advance_to(world_->now());
      step(i);
      world_->settle(i);
    }
    world_->run();
  }
  std::vector<int> forward() const { return {forward_.begin(), forward_.end()}; }
  std::vector<int> backward() const { return {backward_.begin(), backward_.end()}; }

 private:
  std::unique_ptr<sim::World> world_;
  std::vector<std::int32_t> forward_, backward_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

struct Shape {
  const char* name;
  int nodes, ranks_per_node;
  p2p::Protocol protocol;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class SimulatedMessages : public ::testing::TestWithParam<Shape> {};

TEST_P(SimulatedMessages, AreMatchedAsMpiSays) {
  p2p::Options options;
  options.protocol = GetParam().protocol;
  options.allowance = 20'000;
  Machine machine(GetParam().nodes, GetParam().ranks_per_node, options);
  const char* text = std::getenv("TEST_SEED");
  const std::uint64_t seed =
      text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  std::printf("TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::vector<std::unique_ptr<Program>> programs;
  for (int i = 0; i < machine.size(); ++i) {
    auto& rank = machine.rank(i);
    programs.push_back(std::make_unique<Program>(
        rank.messages, i, machine.size(),
        std::vector<Team*>{rank.forward.get(), rank.backward.get()},
        std::vector<std::vector<int>>{machine.forward(), machine.backward()}, seed,
        test::Weights{}));
  }
  const auto program = [&](int i) -> Program& { return *programs[static_cast<std::size_t>(i)]; };
  for (std::uint64_t round = 1; round <= 40 && !HasFailure(); ++round) {
    machine.everybody([&](int i) { program(i).begin(round); });
    bool finished = false;
    for (int steps = 0; steps < 10'000 && !finished; ++steps) {
      machine.everybody([&](int i) { program(i).look(); });
      finished = true;
      for (int i = 0; i < machine.size(); ++i) finished = finished && program(i).finished();
    }
    for (int i = 0; i < machine.size(); ++i) {
      ASSERT_TRUE(finished) << "round " << round << " " << program(i).state();
      program(i).end();
    }
  }
  std::uint64_t total = 0;
  for (auto& each : programs) total += each->received();
  EXPECT_GT(total, 1000u);
  programs.clear();
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedMessages,
                         ::testing::Values(Shape{"NodeEachRead", 4, 1, p2p::Protocol::read},
                                           Shape{"NodeEachWrite", 4, 1, p2p::Protocol::write},
                                           Shape{"NodeEachInParts", 3, 1, p2p::Protocol::pipelined},
                                           Shape{"OneNodeRead", 1, 5,
                                                 p2p::Protocol::read_interrupt},
                                           Shape{"OneNodeWrite", 1, 5, p2p::Protocol::write},
                                           Shape{"TwoANode", 3, 2, p2p::Protocol::read}),
                         [](const auto& shape) { return shape.param.name; });

/// Virtual nanoseconds from a send to the end of both sides, with the receive posted; connected
/// before.
std::uint64_t time_of(p2p::Protocol protocol, std::size_t bytes) {
  p2p::Options options;
  options.protocol = protocol;
  options.eager = 0;
  Machine machine(2, 1, options);
  std::vector<std::byte> out(bytes, std::byte{7}), in(bytes);
  std::uint64_t begin = 0;
  for (int round = 0; round < 2; ++round) {
    Transfer *send = nullptr, *receive = nullptr;
    begin = machine.world().now() / 1000;
    machine.everybody([&](int i) {
      auto& rank = machine.rank(i);
      if (i == 1) {
        EXPECT_TRUE(
            rank.messages
                .start_send(*rank.forward, out.data(), bytes, 0, 1, SendMode::standard, &send)
                .ok());
      } else {
        EXPECT_TRUE(
            rank.messages.start_receive(*rank.forward, in.data(), bytes, 1, 1, &receive).ok());
      }
    });
    EXPECT_FALSE(send->active());
    EXPECT_FALSE(receive->active());
    EXPECT_EQ(out, in);
    std::fill(in.begin(), in.end(), std::byte{0});
    machine.rank(1).messages.release(send);
    machine.rank(0).messages.release(receive);
  }
  return machine.world().now() / 1000 - begin;
}

TEST(SimulatedProtocols, AReadIsOverBeforeAWrite) {
  for (const std::size_t bytes : {std::size_t{32} << 10, std::size_t{1} << 20}) {
    const std::uint64_t write = time_of(p2p::Protocol::write, bytes);
    const std::uint64_t read = time_of(p2p::Protocol::read, bytes);
    EXPECT_LT(read, write) << bytes;
    std::printf("%zu bytes: write %llu ns, read %llu ns\n", bytes,
                static_cast<unsigned long long>(write), static_cast<unsigned long long>(read));
  }
}

TEST(SimulatedProtocols, ALostRankEndsWhatDependsOnIt) {
  for (const p2p::Protocol protocol :
       {p2p::Protocol::read, p2p::Protocol::write, p2p::Protocol::pipelined}) {
    p2p::Options options;
    options.protocol = protocol;
    Machine machine(3, 1, options);
    std::vector<std::byte> data(100'000), other(100'000);
    Transfer *send = nullptr, *named = nullptr, *wild = nullptr;
    machine.everybody([&](int i) {
      auto& rank = machine.rank(i);
      if (i != 0) return;
      EXPECT_TRUE(
          rank.messages
              .start_send(*rank.forward, data.data(), data.size(), 2, 1, SendMode::standard, &send)
              .ok());
      EXPECT_TRUE(rank.messages.start_receive(*rank.forward, other.data(), 8, 2, 1, &named).ok());
      EXPECT_TRUE(
          rank.messages.start_receive(*rank.forward, other.data(), 8, kAnySource, 2, &wild).ok());
    });
    EXPECT_TRUE(send->active() && named->active() && wild->active());
    machine.world().lose(2);
    machine.world().run();
    for (Transfer* transfer : {send, named, wild}) {
      ASSERT_FALSE(transfer->active());
      EXPECT_EQ(transfer->receipt().status.code, Code::peer_lost);
      EXPECT_EQ(transfer->receipt().status.peer, 2);
      machine.rank(0).messages.release(transfer);
    }
  }
}

}  // namespace
}  // namespace tutti
