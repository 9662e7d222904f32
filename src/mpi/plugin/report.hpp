// Counting for `tutti run --report`: what was called, how often, with how many bytes, for how long,
// and what went to the MPI, and why. Costs nothing when it is off.
#pragma once

#include <cstdint>

#include "core/core.hpp"
#include "mpi/plugin/plan.hpp"

namespace tutti::mpi {

/// Seconds on a clock that never goes back.
double now() noexcept;

/// Counts a call that tutti took. `call` names it ("MPI_Allreduce"), `algorithm` is a static
/// string. Thread-safe.
void count_taken(const char* call, const char* algorithm, std::size_t bytes,
                 double seconds) noexcept;
/// Counts a call that went to the MPI. Thread-safe.
void count_passed(const char* call, Reason reason, double seconds) noexcept;

/// Tells `tutti run`, in the file named by TUTTI_RUN_STAMP, what was taken over: the line that it
/// prints at the end. On rank 0.
void leave_note() noexcept;

/// Gathers the counts of all ranks and writes the report where the settings say. Collective over
/// the world, inside MPI_Finalize.
void write_report() noexcept;

}  // namespace tutti::mpi
