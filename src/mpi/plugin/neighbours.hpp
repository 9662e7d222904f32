// Who communicates with whom in the collectives between neighbours.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::mpi {

struct Comm;

/// The neighbours of this rank in a communicator's topology, in the order of their blocks. -1 where
/// there is none (MPI_PROC_NULL): such a block is neither sent nor received.
struct Neighbours {
  std::vector<int> sources, destinations;
  // A grid: what is sent in one direction is received from the other one, also where both lead to
  // one rank (MPI-4.1, section 8.6). Elsewhere the n-th block for a rank is the n-th one from it.
  bool grid = false;
  std::size_t most_alike = 0;  // places of one list that one rank has

  /// Where the block lies in the receive buffer that comes n-th of those from one rank.
  int received_as(int n) const noexcept { return grid ? n ^ 1 : n; }
};

/// Those of a communicator, nullptr where it has no topology. Local; asks the MPI once. As
/// collectives: never by two threads at a time. Throws std::bad_alloc.
const Neighbours* neighbours_of(const Comm& comm);

}  // namespace tutti::mpi
