// The sim fabric in the conformance suite: ranks as coroutines in virtual time, on a node each, all
// on one, and two to a node; on a fat tree; under noise and skew; and with programs that compute
// meanwhile, so that everything happens in interrupts.
#include "fabric/conformance.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::test {
namespace {

struct Machine {
  const char* name;
  int ranks_per_node = 1;
  bool fat_tree = false;  // two nodes to a leaf, and one link up
  sim::Noise noise{};
  bool interrupts = false;
};

constexpr sim::Time kUs = 1'000'000;
// Longer than any body.
constexpr sim::Time kProgram = 1000'000'000 * kUs;

class SimulatedWorld final : public World {
 public:
  explicit SimulatedWorld(const Machine& machine) : machine_(machine) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    const int wanted = machine_.ranks_per_node;
    const int per_node = ranks % wanted == 0 ? wanted : wanted > kMostRanks ? ranks : 1;
    std::unique_ptr<sim::World> world;
    std::string message;
    sim::WorldSpec spec{ranks / per_node, per_node, sim::test::profile("via2003"), false,
                        std::size_t{64} << 20};
    spec.noise = machine_.noise;
    if (machine_.fat_tree) {
      spec.network.leaf_nodes = 2;
      spec.network.uplinks = 1;
      spec.network.hop = kUs / 2;
    }
    const Status created = sim::World::create(spec, &world, &message);
    EXPECT_TRUE(created.ok()) << message;
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks), Outcome{false, created});
    if (!created.ok()) return outcomes;
    world->on_lost = sim::SimJob::depends_on;
    std::vector<std::unique_ptr<Engine>> engines;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Task> tasks;
    for (int rank = 0; rank < ranks; ++rank) {
      engines.push_back(
          std::make_unique<Engine>(world->fabric(rank), WaitPolicy{}, HostPump{}, false));
      bool& died = outcomes[static_cast<std::size_t>(rank)].died;
      sim::World& machine = *world;
      nodes.push_back(
          std::make_unique<Node>(world->fabric(rank), *engines.back(), [&died, &machine, rank] {
            died = true;
            machine.lose(rank);
          }));
      EXPECT_TRUE(world->fabric(rank).reserve(0, Node::kControlBytes).ok());
    }
    const Word never{0};  // what the programs wait for themselves
    for (int rank = 0; rank < ranks; ++rank) {
      world->fabric(rank).advance_to(sim::skew_of(machine_.noise, rank));
      tasks.push_back(body(*nodes[static_cast<std::size_t>(rank)]));
      if (!tasks.back().done()) tasks.back().start();
      world->settle(rank);
      if (machine_.interrupts) world->fabric(rank).compute(kProgram, &never);
    }
    world->run();
    EXPECT_TRUE(!machine_.interrupts || world->now() < kProgram) << "not all were interrupts";
    for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
      if (tasks[rank].done()) {
        outcomes[rank].status = tasks[rank].result();
      } else {
        outcomes[rank].status = Status::error(Code::timeout, "the body waits for ever");
      }
    }
    return outcomes;
  }

 private:
  Machine machine_;
};

WorldFactory factory(const Machine& machine) {
  return {machine.name, [machine] { return std::make_unique<SimulatedWorld>(machine); }};
}

constexpr sim::Noise kNoise{1000 * kUs, 100 * kUs, 0, 7};
constexpr sim::Noise kNoiseAndSkew{300 * kUs, 100 * kUs, 5000 * kUs, 11};
constexpr int kAll = kMostRanks + 1;

std::vector<WorldFactory> machines() {
  std::vector<WorldFactory> all;
  for (const Machine& machine :
       {Machine{"NodeEach"}, Machine{"TwoANode", 2}, Machine{"OneNode", kAll},
        Machine{"FatTree", 1, true}, Machine{"FatTreeTwoANode", 2, true},
        Machine{"Noise", 1, false, kNoise}, Machine{"NoiseAndSkewTwoANode", 2, true, kNoiseAndSkew},
        Machine{"Interrupts", 1, false, {}, true},
        Machine{"InterruptsTwoANode", 2, false, {}, true},
        Machine{"InterruptsAndNoise", 1, true, kNoise, true}})
    all.push_back(factory(machine));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sim, Conformance, ::testing::ValuesIn(machines()), world_name);
INSTANTIATE_TEST_SUITE_P(Sim, DatagramConformance, ::testing::ValuesIn(machines()), world_name);

}  // namespace
}  // namespace tutti::test
