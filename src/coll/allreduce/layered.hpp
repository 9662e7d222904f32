// The layered allreduces, which reduce-scatters of several nodes take too.
#pragma once

#include "coll/collective.hpp"

namespace tutti {

Task allreduce_layered(Collective& c);
Task allreduce_layered_ordered(Collective& c);

}  // namespace tutti
