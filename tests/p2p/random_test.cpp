// Random programs of messages over 2 to 8 ranks, as threads and as processes, on a node and between
// nodes, with every protocol and with faults. The seed is printed; TEST_SEED repeats a run,
// TEST_LEVEL=2 makes it millions of messages.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "p2p/networks.hpp"
#include "p2p/program.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Program;
using test::Rank;
using Clock = std::chrono::steady_clock;

int level() {
  const char* text = std::getenv("TEST_LEVEL");
  return text == nullptr ? 0 : std::atoi(text);
}

std::uint64_t seed() {
  static const std::uint64_t kSeed = [] {
    const char* text = std::getenv("TEST_SEED");
    const std::uint64_t value =
        text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
    std::printf("TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return kSeed;
}

struct Variant {
  std::string name;
  bool processes = false;
  bool nodes = false;  // threads on several
  Rendezvous rendezvous = Rendezvous::automatic;
  std::string fault = {};
  std::size_t unexpected = std::size_t{1} << 20;
  std::size_t eager = Settings{}.eager;
  Switch progress_thread = Switch::automatic;
  bool check = false;
  WaitMode wait = WaitMode::automatic;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

/// Runs rounds of a program until `seconds` have passed for rank 0, and gives the number of
/// messages.
void run_rank(Rank& r, std::uint64_t program_seed, double seconds,
              std::atomic<std::uint64_t>* total) {
  std::vector<int> forward, backward;
  for (int i = 0; i < r.size; ++i) {
    forward.push_back(i);
    backward.push_back(r.size - 1 - i);
  }
  Team* reversed = nullptr;
  const TeamSpec spec{{0x7e57, 2}, r.size - 1 - r.rank, r.size, backward.data()};
  ASSERT_TRUE(r.job.create_team(spec, &reversed).ok());
  {
    Program program(r.job.messages(), r.rank, r.size, {&r.team, reversed}, {forward, backward},
                    program_seed, {});
    const auto begin = Clock::now();
    for (std::uint64_t round = 1;; ++round) {
      program.begin(round);
      const auto started = Clock::now();
      for (std::uint32_t idle = 0; !program.finished(); ++idle) {
        program.look();
        r.job.relax(idle);
        if (Clock::now() - started > std::chrono::seconds(60)) {
          std::fprintf(stderr, "round %llu: %s\n", static_cast<unsigned long long>(round),
                       program.state().c_str());
          std::abort();
        }
      }
      program.end();
      // Rank 0 says when it is enough; the broadcast is a barrier between the rounds, too.
      std::uint32_t go_on =
          std::chrono::duration<double>(Clock::now() - begin).count() < seconds ? 1 : 0;
      if (::testing::Test::HasFailure()) go_on = 0;
      std::uint32_t sum = 0;
      Reduction least;
      ASSERT_TRUE(find_reduction(Op::min, Type::u32, &least));
      Call call;
      call.coll = Coll::allreduce;
      call.send = &go_on;
      call.recv = &sum;
      call.bytes = sizeof sum;
      call.reduction = &least;
      ASSERT_TRUE(r.job.run(r.team, call).ok());
      if (sum == 0) break;
    }
    total->fetch_add(program.received());
  }
  ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
  r.job.release_team(reversed);
}

/// By rank: one, two and three ranks on a node by turns.
std::vector<int> layout(int ranks) {
  std::vector<int> nodes;
  for (int node = 0; static_cast<int>(nodes.size()) < ranks; ++node) {
    for (int i = 0; i <= node % 3 && static_cast<int>(nodes.size()) < ranks; ++i)
      nodes.push_back(node);
  }
  return nodes;
}

class RandomMessages : public ::testing::TestWithParam<Variant> {};

TEST_P(RandomMessages, AreMatchedAsMpiSays) {
  const Variant& setup = GetParam();
  Settings settings;
  settings.arena = std::size_t{256} << 20;
  settings.deadline_s = 100;
  settings.spin_us = 100;
  settings.rendezvous = setup.rendezvous;
  settings.fault = setup.fault;
  settings.unexpected = setup.unexpected;
  settings.eager = setup.eager;
  settings.progress_thread = setup.progress_thread;
  if (setup.check) settings.check = Check::contract;
  settings.wait = setup.wait;
  const std::vector<int> sizes =
      level() == 0 ? std::vector<int>{2, 3, 8} : std::vector<int>{2, 3, 4, 5, 6, 7, 8};
  const double seconds = level() == 0 ? 0.5 : level() == 1 ? 2 : 20;
  std::atomic<std::uint64_t> total{0};
  for (const int ranks : sizes) {
    const auto body = [&](Rank& r) {
      run_rank(r, seed() + static_cast<std::uint64_t>(ranks), seconds, &total);
    };
    if (setup.nodes) {
      settings.p2p = Switch::on;
      settings.arena = test::kArenaBetween;
      test::run_nodes(layout(ranks), settings, body, test::open_between);
    } else if (setup.processes) {
      EXPECT_TRUE(test::all_exited(test::run_processes(ranks, settings, body)));
    } else {
      test::run_threads(ranks, settings, body);
    }
    if (HasFailure()) break;
  }
  if (!setup.processes)
    std::printf("%s: %llu messages\n", setup.name.c_str(),
                static_cast<unsigned long long>(total.load()));
}

std::vector<Variant> setups() {
  std::vector<Variant> all = {
      {.name = "Threads"},
      {.name = "ThreadsWrite", .rendezvous = Rendezvous::write},
      {.name = "ThreadsRead", .rendezvous = Rendezvous::read, .progress_thread = Switch::off},
      {.name = "ThreadsInParts", .fault = "nocma"},
      {.name = "ThreadsChecked", .check = true},
      {.name = "ThreadsWriteChecked", .rendezvous = Rendezvous::write, .check = true},
      {.name = "ThreadsLittleRoom", .unexpected = 4096},
      {.name = "ThreadsNoRoom", .unexpected = 0},
      {.name = "ThreadsNothingEager", .eager = 0},
      {.name = "ThreadsLittleEager", .eager = 16384},
      {.name = "ThreadsLatePuts",
       .rendezvous = Rendezvous::write,
       .fault = "delay:op=put:us=50:count=0"},
      {.name = "ThreadsDeaf", .fault = "deaf"},
      {.name = "ThreadsAsleep", .wait = WaitMode::sleep},
      {.name = "Nodes", .nodes = true},
      {.name = "NodesWrite", .nodes = true, .rendezvous = Rendezvous::write},
      {.name = "NodesRead",
       .nodes = true,
       .rendezvous = Rendezvous::read,
       .progress_thread = Switch::off},
      {.name = "NodesLittleRoom", .nodes = true, .unexpected = 4096},
      {.name = "NodesAsleep", .nodes = true, .wait = WaitMode::sleep},
  };
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
  all.push_back({.name = "Processes", .processes = true});
  all.push_back({.name = "ProcessesWrite", .processes = true, .rendezvous = Rendezvous::write});
  all.push_back({.name = "ProcessesInParts", .processes = true, .fault = "nocma"});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, RandomMessages, ::testing::ValuesIn(setups()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace tutti
