// The hierarchical allreduces, which reduce-scatters of several nodes take too.
#pragma once

#include "coll/collective.hpp"

namespace tutti {

Task allreduce_hierarchical(Collective& c);
Task allreduce_hierarchical_ordered(Collective& c);

}  // namespace tutti
