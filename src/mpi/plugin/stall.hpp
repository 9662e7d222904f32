// The stall report (TUTTI_STALL): a thread of the node's first rank that looks every now and then
// whether some rank has been in one call for too long. One of the last rank looks as well, and
// speaks when the first has left.
#pragma once

#include "core/core.hpp"

namespace tutti::mpi {

/// Begins to watch the ranks of this node, if that is for this rank to do and the setting does not
/// say never.
void begin_watch(const Records& node);
/// Ends it, and waits until it has ended. The records must be there until then.
void end_watch() noexcept;

}  // namespace tutti::mpi
