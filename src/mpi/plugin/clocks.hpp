// Other machines' clocks beside rank 0's.
#pragma once

#include <vector>

#include "mpi/report/clocks.hpp"

namespace tutti::mpi {

/// Looks at the clock of one rank of each machine, on rank 0 (elsewhere empty): by messages of the
/// MPI's to and fro, of which the quickest counts. Nothing is sent where all ranks share a clock.
/// Collective over the program's world; for MPI_Init and MPI_Finalize.
std::vector<report::ClockPoint> measure_clocks();

}  // namespace tutti::mpi
