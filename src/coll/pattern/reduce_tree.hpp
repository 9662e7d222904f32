// The degree-k tree-based reduce (VIA-2003, section 4.2).
#pragma once

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Folds the vectors of the own subtree in rank order into `accumulator` (call.bytes, may be the
/// send buffer) and puts it to the parent; at rank 0 it is then the result. `sent` counts the put:
/// the accumulator and the send buffer may be reused when it has finished. Between
/// Collective::enter and finish.
Task reduce_up_tree(Collective& c, int degree, void* accumulator, Completion* sent);

}  // namespace tutti
