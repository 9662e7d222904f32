#include "mpi/plugin/errors.hpp"

#include <cstdio>

#include "base/log.hpp"
#include "mpi/plugin/recorder.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

int error_class(const Status& status) noexcept {
  switch (status.code) {
    case Code::ok:
      return MPI_SUCCESS;
    case Code::peer_lost:
      return MPI_ERR_PROC_ABORTED;
    case Code::no_memory:
      return MPI_ERR_NO_MEM;
    case Code::truncated:
      return MPI_ERR_TRUNCATE;
    case Code::timeout:
    case Code::not_permitted:
    case Code::unsupported:
      return MPI_ERR_OTHER;
    default:
      return MPI_ERR_INTERN;
  }
}

void explain(Comm& comm, const char* call, const Status& status) noexcept {
  if (status.code == Code::truncated) return;  // the program's own affair
  if (comm.complained.exchange(true, std::memory_order_relaxed)) return;
  char place[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  native.Comm_get_name(comm.handle, place, &length);
  if (length == 0) std::snprintf(place, sizeof place, "a communicator of %d ranks", comm.size);
  const bool known = state.job && status.peer >= 0 && status.peer < state.size;
  const int pid = known ? state.job->process(status.peer) : 0;
  if (status.peer >= state.size) {
    log(LogLevel::error, "dedicated processor %d %s during %s on %s", status.peer - state.size,
        status.code == Code::timeout ? "did not answer before the deadline" : "died", call, place);
  } else if (status.code == Code::peer_lost && known) {
    log(LogLevel::error, "rank %d (pid %d) died during %s on %s", status.peer, pid, call, place);
  } else if (status.code == Code::timeout && known) {
    log(LogLevel::error, "rank %d (pid %d) did not arrive in %s on %s before the deadline of %g s",
        status.peer, pid, call, place, state.settings.deadline_s);
  } else if (known && status.peer != state.rank) {
    log(LogLevel::error, "%s on %s failed on rank %d (pid %d): %s", call, place, status.peer, pid,
        name(status.code));
  } else {
    log(LogLevel::error, "%s on %s failed: %s%s%s", call, place, name(status.code),
        status.detail != nullptr ? ": " : "", status.detail != nullptr ? status.detail : "");
  }
  write_recorders();  // the program's error handler may end the job
}

int raise(Comm& comm, const char* call, const Status& status) noexcept {
  const int code = error_class(status);
  explain(comm, call, status);
  native.Comm_call_errhandler(comm.handle, code);
  return code;
}

int refuse(Comm& comm, Team* team, const char* call, const Status& status) noexcept {
  return raise(comm, call, team != nullptr ? state.job->fail(*team, status) : status);
}

}  // namespace tutti::mpi
