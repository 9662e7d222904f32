// The layered allgathers, which run also where a node has no memory for a shared buffer.
#pragma once

#include "coll/collective.hpp"

namespace tutti {

Task allgather_layered(Collective& c);
Task allgatherv_layered(Collective& c);

}  // namespace tutti
