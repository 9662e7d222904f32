// MPI_Request_get_status and its siblings, which complete nothing.
#include <vector>

#include "mpi/plugin/completion.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {
namespace {

int handle_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!is_own(request)) return native.Request_get_status(request, flag, status);
  *flag = look(request);
  Request& own = *request_of(request);
  if (own.at_once) {
    describe_at_once(own, status);
  } else if (*flag && own.started && own.transfer != nullptr) {
    static_cast<void>(settle_message(own).ok());  // its outcome is Wait's and Test's to tell
    describe_message(own, status);
  } else if (*flag) {
    if (own.started) static_cast<void>(settle_collective(own).ok());
    set_empty(status);
  }
  return MPI_SUCCESS;
}

int handle_Request_get_status_all(int count, const MPI_Request* requests, int* flag,
                                  MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_all(count, requests, flag, statuses);
  }
  *flag = 1;
  for (int i = 0; i < count && *flag; ++i) {
    const int code = handle_Request_get_status(requests[i], flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
  }
  for (int i = 0; i < count && *flag && statuses != MPI_STATUSES_IGNORE; ++i) {
    int done = 0;
    const int code = handle_Request_get_status(requests[i], &done, &statuses[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// The MPI's requests of an array that is only looked at.
NativePart native_part(int count, const MPI_Request* requests) {
  return {count, const_cast<MPI_Request*>(requests)};
}

bool is_active_own(MPI_Request request) { return is_own(request) && request_of(request)->started; }

int handle_Request_get_status_any(int count, const MPI_Request* requests, int* index, int* flag,
                                  MPI_Status* status) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_any(count, requests, index, flag, status);
  }
  bool live = false;
  for (int i = 0; i < count; ++i) {
    if (!is_active_own(requests[i])) continue;
    live = true;
    const int code = handle_Request_get_status(requests[i], flag, status);
    if (code == MPI_SUCCESS && !*flag) continue;
    *index = i;
    return code;
  }
  // Which of the MPI's are inactive only the MPI can say.
  NativePart part = native_part(count, requests);
  if (part.count() > 0) {
    int mine = MPI_UNDEFINED;
    const int code =
        native.Request_get_status_any(part.count(), part.requests(), &mine, flag, status);
    if (code != MPI_SUCCESS || (*flag && mine != MPI_UNDEFINED)) {
      *index = mine == MPI_UNDEFINED ? MPI_UNDEFINED : part.index(mine);
      return code;
    }
    if (!*flag) live = true;
  }
  *index = MPI_UNDEFINED;
  *flag = !live;
  if (!live) set_empty(status);
  return MPI_SUCCESS;
}

int handle_Request_get_status_some(int count, const MPI_Request* requests, int* outcount,
                                   int* indices, MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_some(count, requests, outcount, indices, statuses);
  }
  bool live = false;
  *outcount = 0;
  for (int i = 0; i < count; ++i) {
    if (!is_active_own(requests[i])) continue;
    live = true;
    int flag = 0;
    const int code = handle_Request_get_status(requests[i], &flag, at(statuses, *outcount));
    if (code != MPI_SUCCESS) return code;
    if (flag) indices[(*outcount)++] = i;
  }
  NativePart part = native_part(count, requests);
  if (part.count() > 0) {
    int theirs = 0;
    std::vector<int> mine(static_cast<std::size_t>(part.count()));
    const int code = native.Request_get_status_some(part.count(), part.requests(), &theirs,
                                                    mine.data(), part.statuses());
    if (code != MPI_SUCCESS) return code;
    if (theirs != MPI_UNDEFINED) live = true;
    for (int i = 0; i < theirs; ++i) {
      part.copy_status(i, at(statuses, *outcount));
      indices[(*outcount)++] = part.index(mine[static_cast<std::size_t>(i)]);
    }
  }
  if (!live) *outcount = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace

void install_status_queries(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Request_get_status);
  TUTTI_INSTALL(Request_get_status_any);
  TUTTI_INSTALL(Request_get_status_all);
  TUTTI_INSTALL(Request_get_status_some);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
