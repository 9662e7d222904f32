// Worlds over the nodes fabric: ranks on one machine that take each other as remote (TUTTI_NODE)
// and talk over libfabric's tcp on the loopback.
#pragma once

#include <memory>
#include <string>

#include "base/settings.hpp"
#include "fabric/network.hpp"
#include "fabric/world.hpp"
#include "support/local_jobs.hpp"

namespace tutti::test {

/// Rank r is on node r / ranks_per_node.
std::unique_ptr<World> make_nodes_world(const Settings& settings, int ranks_per_node, bool threads,
                                        Wrap wrap = {}, OpenNetwork open = open_ofi);

}  // namespace tutti::test
