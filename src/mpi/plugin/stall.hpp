// The stall report (TUTTI_STALL): a thread of the node's first rank that looks every now and then
// whether some rank has been in one call for too long. One of the last rank looks as well, and
// speaks when the first has left. Of several nodes the first one speaks for all (roll_call.hpp).
#pragma once

#include <vector>

#include "core/core.hpp"
#include "mpi/plugin/node_list.hpp"

namespace tutti::mpi {

/// Where this rank's watch will hear other nodes, which all ranks are to be told. Family 0: it will
/// not. Thread of MPI_Init.
Listener listen_for_stalls(const Records& node) noexcept;
/// Begins to watch the ranks of this node, if that is for this rank to do and the setting does not
/// say never. `ranks`: what all have told. Throws std::bad_alloc.
void begin_watch(const Records& node, const std::vector<Introduced>& ranks);
/// Ends it, and waits until it has ended. The records must be there until then.
void end_watch() noexcept;

}  // namespace tutti::mpi
