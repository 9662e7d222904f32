// The ordered allreduce, which reduce-scatters take too.
#pragma once

#include "coll/collective.hpp"

namespace tutti {

Task allreduce_ordered(Collective& c);

}  // namespace tutti
