// From a Status of the core to what MPI programs know: an error class and an error handler.
#pragma once

#include "base/status.hpp"
#include "mpi/plugin/comm.hpp"

namespace tutti::mpi {

/// The MPI error class of a status.
int error_class(const Status& status) noexcept;

/// Says once per communicator what happened ("rank 3 (pid 123) died during MPI_Allreduce on ..."),
/// calls the communicator's error handler and returns the error class (if the handler returns).
/// Thread-safe.
int raise(Comm& comm, const char* call, const Status& status) noexcept;

/// The same for a collective that fails on this rank before it begins, for a reason of this rank's
/// own (no memory): the other members of `team` are, or will be, in it, and are told. nullptr:
/// there is no team yet. Thread-safe.
int refuse(Comm& comm, Team* team, const char* call, const Status& status) noexcept;

/// The message alone.
void explain(Comm& comm, const char* call, const Status& status) noexcept;

}  // namespace tutti::mpi
