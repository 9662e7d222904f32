// The hierarchical allgathers, which run also where a node has no memory for a shared buffer.
#pragma once

#include "coll/collective.hpp"

namespace tutti {

Task allgather_hierarchical(Collective& c);
Task allgatherv_hierarchical(Collective& c);

}  // namespace tutti
