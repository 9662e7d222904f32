// What is simulated is what would run: random jobs, real and in virtual time, are asked which
// algorithm takes a call, with which parameters and how many stream items, in the whole team and in
// each of its layers. A job is drawn from a seed, which is printed: the nodes of its ranks, what
// the settings say of algorithms, blocks, cross-memory attach and multicast, and the calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/random_seed.hpp"
#include "sim/job.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Rank;

/// A call without buffers.
struct Question {
  Coll coll = Coll::barrier;
  std::size_t bytes = 0;
  Reduction reduction;
  std::vector<std::size_t> counts;  // of an allgatherv

  Call call() const {
    Call call;
    call.coll = coll;
    call.bytes = bytes;
    call.reduction = &reduction;
    call.counts = counts.data();
    return call;
  }
  std::string text() const {
    return std::string(name(coll)) + " of " + std::to_string(bytes) + " bytes, elements of " +
           std::to_string(reduction.element_bytes) + (reduction.divisible ? "" : ", whole") +
           (reduction.commutative ? "" : ", in order") +
           (reduction.sum != nullptr ? ", at once" : "");
  }
};

struct Drawn {
  std::vector<int> node_of;  // by rank
  Settings settings;
  std::string rules;    // of TUTTI_CHOICES
  bool hosted = false;  // the whole team belongs to an MPI program
  std::vector<Question> questions;

  int size() const { return static_cast<int>(node_of.size()); }
  int nodes() const { return 1 + *std::max_element(node_of.begin(), node_of.end()); }
  /// Ranks of a node, by node.
  std::vector<int> counts() const {
    std::vector<int> counts(static_cast<std::size_t>(nodes()), 0);
    for (const int node : node_of) ++counts[static_cast<std::size_t>(node)];
    return counts;
  }
  bool even() const {
    const auto all = counts();
    return std::all_of(all.begin(), all.end(), [&](int count) { return count == all.front(); });
  }
  std::string text() const {
    std::string text = "ranks on nodes";
    for (const int node : node_of) text.append(1, ' ').append(std::to_string(node));
    text += ", TUTTI_ALG=" + settings.algorithm + ", blocks of " + std::to_string(settings.block);
    if (settings.fixed_order != FixedOrder::off) text += ", fixed order";
    if (hosted) text += ", of an MPI program";
    if (settings.multicast == Switch::on) text += ", multicast";
    if (settings.cma == Switch::off) text += ", without cross-memory attach";
    return text + "\n" + rules;
  }
};

/// What may be left to the MPI is as likely as one of tutti's algorithms.
std::vector<test::Combination> with_the_mpi(std::vector<test::Combination> all) {
  const std::size_t own = all.size() / kColls;
  for (int i = 0; i < kColls; ++i) {
    const Coll coll = static_cast<Coll>(i);
    all.insert(all.end(), own, {&host_algorithm(coll), std::string(name(coll)) + "=mpi"});
  }
  return all;
}

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed) {}

  Drawn draw() {
    Drawn drawn;
    drawn.node_of = layout();
    Settings& settings = drawn.settings;
    settings.arena = std::size_t{128} << 20;
    settings.deadline_s = 30;
    settings.block = std::size_t{4096} << below(7);
    settings.fixed_order = below(4) == 0 ? FixedOrder::on : FixedOrder::off;
    settings.cma = below(4) == 0 ? Switch::off : Switch::automatic;
    settings.net_interface = "lo";
    settings.multicast = below(2) == 0 ? Switch::on : Switch::off;
    settings.algorithm = forced();
    drawn.hosted = below(2) == 0;
    for (std::size_t i = below(4); i != 0; --i) drawn.rules += rule();
    for (int i = 0; i < 300; ++i) drawn.questions.push_back(question(drawn.node_of.size()));
    return drawn;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  /// On one node, on a node each, as many on each node, or anyhow.
  std::vector<int> layout() {
    const std::size_t kind = below(5);
    const std::size_t nodes = kind == 0 ? 1 : 2 + below(kind == 1 ? 9 : 3);
    const std::size_t each = kind == 0 ? 2 + below(8) : kind == 1 ? 1 : 2 + below(2);
    std::vector<int> node_of;
    for (std::size_t i = 0; i < nodes * each; ++i) node_of.push_back(static_cast<int>(i / each));
    if (kind == 4) {  // the first rank of each node stays
      for (std::size_t i = 0; i < node_of.size(); ++i)
        if (i % each != 0) node_of[i] = static_cast<int>(below(nodes));
    }
    if (below(2) == 0) std::shuffle(node_of.begin(), node_of.end(), random_);
    return node_of;
  }

  const test::Combination& combination() { return combinations_[below(combinations_.size())]; }

  /// As TUTTI_ALG, of different collectives.
  std::string forced() {
    std::map<Coll, std::string> by_coll;
    for (std::size_t i = below(5); i != 0; --i) {
      const test::Combination& one = combination();
      by_coll[one.algorithm->coll] = one.forced;
    }
    std::string text;
    for (const auto& [coll, one] : by_coll) text += (text.empty() ? "" : ",") + one;
    return text;
  }

  /// A section of one rule (docs/choices.md).
  std::string rule() {
    static constexpr const char* kWhere[] = {
        "", "node", "nodes", "layers", "ranks=3..5", "processors=scarce", "network=kernel"};
    const test::Combination& one = combination();
    std::string algorithm = one.forced.substr(one.forced.find('=') + 1);
    if (const std::size_t end = algorithm.find(':'); end != std::string::npos) {
      std::replace(algorithm.begin(), algorithm.end(), ':', ',');
      algorithm[end] = '(';
      algorithm += ')';
    }
    return std::string("[") + kWhere[below(std::size(kWhere))] + "]\n" + name(one.algorithm->coll) +
           ": .." + std::to_string(bytes()) + " " + algorithm + "\n";
  }

  /// About as many of each magnitude, and now and then a power of two or next to it.
  std::size_t bytes() {
    const std::size_t power = std::size_t{1} << below(27);
    return below(3) == 0 ? power - 1 + below(3) : power + below(power);
  }

  Question question(std::size_t ranks) {
    Question question;
    question.coll = static_cast<Coll>(below(kColls));
    question.bytes = question.coll == Coll::barrier ? 0 : bytes();
    question.reduction.element_bytes = std::size_t{1} << below(5);
    question.reduction.divisible = below(4) != 0;
    question.reduction.commutative = below(4) != 0;
    if (reduces(question.coll) && question.reduction.divisible && question.reduction.commutative &&
        below(3) == 0)
      question.reduction.sum = [](const Operands&, void*, std::size_t) {};
    std::size_t left = question.bytes;
    for (std::size_t i = 0; i < ranks; ++i) {
      question.counts.push_back(i + 1 == ranks ? left : below(left + 1));
      left -= question.counts.back();
    }
    return question;
  }

  std::mt19937_64 random_;
  std::vector<test::Combination> combinations_ = with_the_mpi(test::combinations());
};

std::string text_of(const Shape& s) {
  std::string text = "size " + std::to_string(s.size) + " lanes " + std::to_string(s.lanes) +
                     " datagram " + std::to_string(s.datagram) + " block " +
                     std::to_string(s.block_bytes);
  const std::pair<const char*, bool> flags[] = {{"mapped", s.mapped},
                                                {"hierarchical", s.hierarchical},
                                                {"everybody", s.everybody},
                                                {"segments", s.segments},
                                                {"scarce", s.scarce},
                                                {"bypass", s.bypass},
                                                {"alone", s.alone},
                                                {"mail", s.mail},
                                                {"acks", s.acks},
                                                {"user_memory", s.user_memory},
                                                {"dedicated", s.dedicated},
                                                {"waits", s.waits},
                                                {"divisible", s.divisible},
                                                {"commutative", s.commutative},
                                                {"fixed_order", s.fixed_order},
                                                {"at_once", s.at_once},
                                                {"hosted", s.hosted}};
  for (const auto& [name, set] : flags) text += set ? std::string(" ") + name : "";
  return text;
}

std::string text_of(const Team& team, const Call& call, const Choice& choice) {
  if (choice.algorithm == nullptr) return "none";
  std::string text = choice.algorithm->name;
  for (const std::int64_t value : choice.parameters.value)
    text.append(1, ':').append(std::to_string(value));
  return text + ", items " + std::to_string(Dispatcher::items(team, call, choice));
}

/// The shape of a team, and what it takes for each question.
using Answers = std::vector<std::string>;

Answers answers_of(Dispatcher& dispatcher, Team& team, const Drawn& drawn) {
  Choices& choices = dispatcher.choices(team);
  Answers answers = {text_of(choices.shape())};
  for (const Question& question : drawn.questions) {
    const Call call = question.call();
    answers.push_back(text_of(team, call, choices.of(call)));
  }
  return answers;
}

/// Of the whole team and of this rank's layers, by name.
using ByLayer = std::map<std::string, Answers>;

ByLayer ask(Dispatcher& dispatcher, Team& team, const Drawn& drawn) {
  ByLayer all = {{"whole", answers_of(dispatcher, team, drawn)}};
  Layers* const layers = team.layers();
  if (layers == nullptr) return all;
  if (layers->node) all["node"] = answers_of(dispatcher, *layers->node, drawn);
  if (layers->leaders) all["leaders"] = answers_of(dispatcher, *layers->leaders, drawn);
  if (layers->each() == 0) return all;
  Team* lane = nullptr;
  EXPECT_TRUE(layers->open_lane(&lane).ok());
  if (lane != nullptr) all["lane"] = answers_of(dispatcher, *lane, drawn);
  return all;
}

struct Reality {
  std::vector<ByLayer> ranks;
  Traits traits;
};

/// The same ranks as a team that an MPI program would have.
Status make_hosted(Rank& r, Team** out) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(r.size));
  std::iota(members.begin(), members.end(), 0);
  TeamSpec spec{{3, 4}, r.rank, r.size, members.data()};
  spec.hosted = true;
  return r.job.create_team(spec, out);
}

Reality really(const Drawn& drawn) {
  Reality reality;
  reality.ranks.resize(drawn.node_of.size());
  const auto body = [&](Rank& r) {
    auto& job = static_cast<JobImpl&>(r.job);
    Team* team = &r.team;
    if (drawn.hosted) {
      EXPECT_TRUE(make_hosted(r, &team).ok());
    }
    const Engine::Guard guard(job.engine());
    reality.ranks[static_cast<std::size_t>(r.rank)] = ask(job.dispatcher(), *team, drawn);
    if (r.rank == 0) reality.traits = job.fabric().traits();
  };
  if (drawn.nodes() == 1) {
    test::run_threads(drawn.size(), drawn.settings, body);
  } else {
    test::run_nodes(drawn.node_of, drawn.settings, body);
  }
  return reality;
}

Policy policy_of(const Drawn& drawn) {
  Policy policy;
  std::string message;
  EXPECT_TRUE(Forced::parse(drawn.settings.algorithm, &policy.forced, &message).ok()) << message;
  if (!drawn.settings.choices.empty()) {
    EXPECT_TRUE(Rules::load(drawn.settings.choices, &policy.site, &message).ok()) << message;
  }
  policy.fixed_order = drawn.settings.fixed_order != FixedOrder::off;
  return policy;
}

/// A machine that differs from the real one in nothing that selection is told.
sim::Network network_of(const Traits& traits) {
  sim::Network network;
  network.Tl = traits.bypass ? 1'000'000 : 20'000'000;
  network.mtu = traits.datagram_bytes;
  return network;
}

/// A team in virtual time whose ranks are on any nodes, as SimJob makes its own.
class Machine {
 public:
  Machine(const Drawn& drawn, const Traits& traits) : dispatcher_(policy_of(drawn)) {
    const auto counts = drawn.counts();
    const int most = *std::max_element(counts.begin(), counts.end());
    sim::WorldSpec spec{drawn.nodes(), most, network_of(traits), false, std::size_t{1} << 30};
    spec.scarce = traits.scarce;
    spec.user_memory = traits.user_memory;
    std::string message;
    EXPECT_TRUE(sim::World::create(spec, &world_, &message).ok()) << message;
    std::vector<int> used(counts.size(), 0);
    for (const int node : drawn.node_of)
      members_.push_back(node * most + used[static_cast<std::size_t>(node)]++);
    for (int i = 0; i < drawn.size(); ++i) add(i, drawn.settings.block, drawn.hosted);
  }
  ByLayer ask(int rank, const Drawn& drawn) {
    return tutti::ask(dispatcher_, *ranks_[static_cast<std::size_t>(rank)]->team, drawn);
  }

 private:
  struct Member {
    Member(sim::SimFabric& fabric, std::size_t block, Dispatcher& dispatcher)
        : engine(fabric, WaitPolicy{}, HostPump{}, false),
          heap(fabric, Directory::bytes()),
          blocks(heap, block, std::size_t{1} << 20),
          resources{engine, heap, directory, blocks, &dispatcher} {
      resources.symmetric_layers = resources.symmetric_segments = true;
    }
    Engine engine;
    ArenaHeap heap;
    Directory directory;
    BlockPool blocks;
    TeamResources resources;
    std::unique_ptr<Team> team;
  };

  void add(int member, std::size_t block, bool hosted) {
    sim::SimFabric& fabric = world_->fabric(members_[static_cast<std::size_t>(member)]);
    Member& made = *ranks_.emplace_back(std::make_unique<Member>(fabric, block, dispatcher_));
    constexpr std::uint64_t kId[2] = {1, 2};
    EXPECT_TRUE(Directory::create(fabric, &made.directory).ok());
    EXPECT_TRUE(Team::create(made.resources, kId, member, static_cast<int>(members_.size()),
                             members_.data(), true, &made.team)
                    .ok());
    made.team->hosted = hosted;
  }

  std::unique_ptr<sim::World> world_;
  Dispatcher dispatcher_;
  std::vector<std::int32_t> members_;
  std::vector<std::unique_ptr<Member>> ranks_;
};

/// Of the first rank of a SimJob, which places its ranks node by node.
ByLayer ask_job(const Drawn& drawn, const Traits& traits) {
  sim::JobSpec spec{drawn.nodes(), drawn.counts().front(), network_of(traits), false};
  spec.hierarchical = true;
  spec.policy = policy_of(drawn);
  spec.block_bytes = drawn.settings.block;
  spec.scarce = traits.scarce;
  spec.user_memory = traits.user_memory;
  std::unique_ptr<sim::SimJob> job;
  std::string message;
  EXPECT_TRUE(sim::SimJob::create(spec, &job, &message).ok()) << message;
  if (!job) return {};
  job->team(0).hosted = drawn.hosted;
  return ask(job->dispatcher(), job->team(0), drawn);
}

void expect_same(const ByLayer& simulated, const ByLayer& real, const Drawn& drawn) {
  for (const auto& [layer, answers] : real) {
    const auto found = simulated.find(layer);
    ASSERT_NE(found, simulated.end()) << "no layer " << layer << " in " << drawn.text();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(found->second[i], answers[i])
          << layer << ", " << (i == 0 ? "shape" : drawn.questions[i - 1].text()) << "\n"
          << drawn.text();
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(simulated.size(), real.size()) << drawn.text();
}

void compare(const Drawn& drawn) {
  const Reality reality = really(drawn);
  ASSERT_FALSE(::testing::Test::HasFailure()) << drawn.text();
  Machine machine(drawn, reality.traits);
  for (int rank = 0; rank < drawn.size(); ++rank) {
    const ByLayer& real = reality.ranks[static_cast<std::size_t>(rank)];
    ASSERT_EQ(real.at("whole"), reality.ranks.front().at("whole")) << "rank " << rank;
    ASSERT_NO_FATAL_FAILURE(expect_same(machine.ask(rank, drawn), real, drawn)) << "rank " << rank;
    if (::testing::Test::HasFailure()) return;
  }
  if (!drawn.even()) return;
  ASSERT_NO_FATAL_FAILURE(
      expect_same(ask_job(drawn, reality.traits), reality.ranks.front(), drawn));
  Shape asked =
      Shape::of({drawn.nodes(), drawn.counts().front()}, reality.traits, drawn.settings.block);
  asked.fixed_order = drawn.settings.fixed_order != FixedOrder::off;
  asked.hosted = drawn.hosted;
  EXPECT_EQ(text_of(asked), reality.ranks.front().at("whole").front()) << drawn.text();
}

/// More for TEST_LEVEL=2, fewer for 0.
int jobs() {
  const char* text = std::getenv("TEST_LEVEL");
  const int level = text == nullptr ? 1 : std::atoi(text);
  return level == 0 ? 5 : level == 1 ? 40 : 400;
}

TEST(Simulated, ChoosesAsReality) {
  Drawer drawer(testing::random_seed());
  const std::string path = ::testing::TempDir() + "tutti_simulated_" + std::to_string(::getpid());
  for (int i = 0; i < jobs() && !HasFailure(); ++i) {
    Drawn drawn = drawer.draw();
    if (!drawn.rules.empty()) {
      std::ofstream(path) << drawn.rules;
      drawn.settings.choices = path;
    }
    compare(drawn);
  }
  std::filesystem::remove(path);
}

/// Beyond the number of ranks whose arenas have room for a segment, no team may count on one,
/// however few its own members are.
TEST(Simulated, LeadersOfManyRanksHaveNoSegment) {
  for (const int nodes : {20, 2100}) {
    sim::JobSpec spec{nodes, 2, network_of(Traits{}), true};
    spec.hierarchical = true;
    std::unique_ptr<sim::SimJob> job;
    std::string message;
    ASSERT_TRUE(sim::SimJob::create(spec, &job, &message).ok()) << message;
    Team& leaders = *job->team(0).layers()->leaders;
    EXPECT_EQ(job->dispatcher().choices(leaders).shape().segments, nodes == 20);
  }
}

}  // namespace
}  // namespace tutti
