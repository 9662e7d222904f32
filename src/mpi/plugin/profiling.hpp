// The profile of this rank (report/profile.hpp), with a report: what the flight recorder notes of
// its calls is added up before it is written over.
#pragma once

#include <vector>

#include "mpi/record/record.h"
#include "mpi/report/profile.hpp"

namespace tutti::mpi {

/// Behind begin_record(): counts what is recorded from now on, and measures the clocks of other
/// nodes. Collective over the program's world, also where a rank has no record. Thread of MPI_Init.
void begin_profile();
/// Adds up the calls of a lane that have ended. By its own thread, as the preload asks.
void count_calls(tutti_lane* lane) noexcept;
/// The same for all lanes. Any thread.
void count_all_calls() noexcept;
/// Everybody's on rank 0, by its clock; empty on the others, and where they do not fit into its
/// memory. Collective over the program's world, inside MPI_Finalize.
std::vector<report::RankProfile> gather_profiles();

}  // namespace tutti::mpi
