// Worlds over the nodes fabric: ranks on one machine that take each other as remote (TUTTI_NODE)
// and talk over libfabric's tcp on the loopback.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "fabric/network.hpp"
#include "fabric/world.hpp"

namespace tutti::test {

/// Opens the network of a rank.
using OpenNetwork = std::function<Status(const Settings&, int rank, std::unique_ptr<Network>*,
                                         std::string* message)>;
/// libfabric's.
Status open_ofi(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                std::string* message);

/// Rank r is on node r / ranks_per_node.
std::unique_ptr<World> make_nodes_world(const Settings& settings, int ranks_per_node, bool threads,
                                        Wrap wrap = {}, OpenNetwork open = open_ofi);

}  // namespace tutti::test
