// The machines of a job, for whoever looks at one of them from outside (`tutti where`).
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/plugin/roll_call.hpp"

namespace tutti::mpi {

/// What the ranks tell each other when the record begins.
struct Introduced {
  std::uint64_t number;  // that the rank has drawn
  char machine[64];      // as the system calls it
  Listener listener;     // of the first rank of each node
  Secret secret;         // the first rank's is for the stall report
};
/// `listener`: this rank's.
Introduced introduce_record(const Listener& listener) noexcept;

/// Leaves the names of several machines, without those that are there twice, in a file without a
/// name that this process holds open: its first line is the job's name, and each other one that of
/// a machine. Nothing where there is but one. Where the system refuses, the job goes on without.
/// Thread of MPI_Init.
void hold_node_list(std::uint64_t job, const std::vector<Introduced>& ranks);
/// Lets it go. Thread of MPI_Finalize.
void drop_node_list() noexcept;

}  // namespace tutti::mpi
