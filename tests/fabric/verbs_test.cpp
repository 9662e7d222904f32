// The nodes fabric over verbs in the conformance suite. Needs four RDMA devices with the interfaces
// e0 to e3: the virtual machine of tests/verbs-vm, which runs this program.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/nodes_world.hpp"
#include "fabric/verbs/verbs.hpp"

namespace tutti::test {
namespace {

constexpr int kDevices = 4;

/// Ranks take the devices in turn.
Status open_verbs(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                  std::string* message) {
  Settings own = settings;
  own.net_interface = std::string("e").append(std::to_string(rank % kDevices));
  return verbs::VerbsNetwork::open(own, out, message);
}

std::vector<WorldFactory> worlds() {
  Settings settings;
  settings.arena = std::size_t{32} << 20;
  settings.ring = std::size_t{1} << 20;
  std::vector<WorldFactory> all;
  for (const int ranks_per_node : {1, 2}) {
    const std::string form = ranks_per_node == 1 ? "Apart" : "InPairs";
    for (const bool threads : {true, false}) {
      all.push_back({(threads ? "Threads" : "Processes") + form, [=] {
                       return make_nodes_world(settings, ranks_per_node, threads, {}, open_verbs);
                     }});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, ::testing::ValuesIn(worlds()), world_name);

}  // namespace
}  // namespace tutti::test
