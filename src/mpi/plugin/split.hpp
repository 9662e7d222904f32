// Dedicated processors that are taken from the job's own processes (TUTTI_DCP_FROM_JOB, CDCP-2008):
// inside MPI_Init the processes are split into those of the program, whose world is then a
// communicator of theirs (src/mpi/split puts it in the place of MPI_COMM_WORLD), and those that
// serve them and never return to the program.
#pragma once

#include <string>

#include "core/core.hpp"
#include "mpi/plugin_api.h"

namespace tutti::mpi {

/// True in a process that another MPI job has started (MPI_Comm_spawn).
bool is_spawned();

/// Decides who is what, and makes the communicators: `world_handle` of the program's processes
/// (MPI_COMM_NULL in the others), `state.pump_comm` of all, with the program's first. `state.rank`
/// and `state.size` are those in the program's world; a dedicated processor's rank follows them.
/// Collective; false on all ranks, after a line that says why, when there is nothing to split.
bool split_job();
/// Undoes that, when the job cannot be created: the program then has all processes.
void undo_split();
/// True from split_job() on.
bool split_off() noexcept;

/// Completes `*host` for the job with dedicated processors; on one of those, binds it.
Status join_processors(Host* host, std::string* message);

/// When the job exists. In a process of the program: calls on MPI_COMM_WORLD go to its world from
/// now on. A dedicated processor serves, and ends here.
void begin_split(const tutti_preload& preload);
/// In MPI_Finalize, when tutti is gone: frees the program's world.
void end_split();

}  // namespace tutti::mpi
