// Multicast between the nodes of a job.
#pragma once

#include <string>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/nodes/nodes.hpp"

namespace tutti {

/// Gives the fabric multicast (its network's own, else IP multicast) where it gets through from one
/// node to all others, which is tried once (clouds drop it; TUTTI_MULTICAST=on does not try).
/// Collective over the bootstrap; all ranks come to the same result. On failure the fabric is as it
/// was. `*message` says in one line, on rank 0, what it is, or why there is none.
Status connect_multicast(Bootstrap& bootstrap, const Settings& settings, nodes::NodesFabric& fabric,
                         std::string* message);

}  // namespace tutti
