// Where the program's processes wait for each other inside MPI_Finalize.
#pragma once

namespace tutti::mpi {

/// Returns when all of the program's processes have called it; asleep meanwhile, since whoever
/// comes late may need the processors. Requests and messages of tutti's move on. False when the MPI
/// refuses: then nobody is waited for. Collective over the program's world, with a job.
bool meet() noexcept;

}  // namespace tutti::mpi
