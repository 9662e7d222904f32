#include "mpi/plugin/meeting.hpp"

#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/split.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

/// The communicator of the program's processes that nobody else communicates on.
MPI_Comm meeting_place() noexcept {
  return split_off() && !state.report ? world_handle : state.report_comm;
}

}  // namespace

/// By a barrier of the MPI's, which would poll if we waited in it.
bool meet() noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  if (native.Ibarrier(meeting_place(), &request) != MPI_SUCCESS) return false;
  int over = 0;
  for (std::uint32_t round = 0;; ++round) {
    if (native.Test(&request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (over) return true;
    state.job->relax(round);
  }
}

}  // namespace tutti::mpi
