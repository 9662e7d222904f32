// Whose the program's messages are (TUTTI_P2P).
#pragma once

namespace tutti::mpi {

/// Whether messages are tutti's: as TUTTI_P2P says, or where they are clearly faster than the MPI's
/// (docs/decisions/0050-messages-by-themselves.md). The same on all ranks. Collective over the
/// world; once, when the job is there.
bool takes_messages();

}  // namespace tutti::mpi
