// The sim fabric in the conformance suite: ranks as coroutines in virtual time, on a node each, all
// on one, and two to a node.
#include "fabric/conformance.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::test {
namespace {

class SimulatedWorld final : public World {
 public:
  explicit SimulatedWorld(int ranks_per_node) : ranks_per_node_(ranks_per_node) {}

  std::vector<Outcome> run(int ranks, const NodeBody& body) override {
    const int per_node = ranks % ranks_per_node_ == 0   ? ranks_per_node_
                         : ranks_per_node_ > kMostRanks ? ranks
                                                        : 1;
    std::unique_ptr<sim::World> world;
    std::string message;
    const sim::WorldSpec spec{ranks / per_node, per_node, sim::test::profile("via2003"), false,
                              std::size_t{64} << 20};
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
    for (int rank = 0; rank < ranks; ++rank) {
      tasks.push_back(body(*nodes[static_cast<std::size_t>(rank)]));
      if (!tasks.back().done()) tasks.back().start();
      world->settle(rank);
    }
    world->run();
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
  int ranks_per_node_;
};

WorldFactory factory(const char* name, int ranks_per_node) {
  return {name, [ranks_per_node] { return std::make_unique<SimulatedWorld>(ranks_per_node); }};
}

INSTANTIATE_TEST_SUITE_P(Sim, Conformance,
                         ::testing::Values(factory("NodeEach", 1), factory("TwoANode", 2),
                                           factory("OneNode", kMostRanks + 1)),
                         world_name);
INSTANTIATE_TEST_SUITE_P(Sim, DatagramConformance,
                         ::testing::Values(factory("NodeEach", 1), factory("TwoANode", 2),
                                           factory("OneNode", kMostRanks + 1)),
                         world_name);

}  // namespace
}  // namespace tutti::test
