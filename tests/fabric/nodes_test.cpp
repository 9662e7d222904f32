// The nodes fabric over libfabric's tcp in the conformance suite: every rank a node of its own, and two ranks on
// each node; as threads and as processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/nodes_world.hpp"

namespace tutti::test {
namespace {

std::vector<WorldFactory> worlds() {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  std::vector<WorldFactory> all;
  for (const int ranks_per_node : {1, 2}) {
    const std::string form = ranks_per_node == 1 ? "Apart" : "InPairs";
    all.push_back({"Threads" + form, [=] { return make_nodes_world(settings, ranks_per_node, true); }});
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
    all.push_back({"Processes" + form, [=] { return make_nodes_world(settings, ranks_per_node, false); }});
#endif
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ofi, Conformance, ::testing::ValuesIn(worlds()), world_name);

}  // namespace
}  // namespace tutti::test
