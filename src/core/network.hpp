// Opening the network between nodes, and which fabrics there are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "fabric/network.hpp"

namespace tutti {

/// Opens the network that TUTTI_NET_PROVIDER names: "verbs", or a provider of libfabric. Where it
/// names none: verbs on a machine that has an RDMA device with an address, else libfabric. On
/// failure `*message` says in one line why.
Status open_network(const Settings& settings, std::unique_ptr<Network>* out, std::string* message);

/// What the fabrics of this build say of themselves; verbs where its plugin and libraries are.
std::vector<FabricDescription> describe_fabrics();

}  // namespace tutti
