// Start, Cancel and Request_free, and the numbers of requests in Fortran.
#include "mpi/plugin/completion.hpp"
#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

int fail(Request* request, int code) {
  native.Comm_call_errhandler(request->comm != nullptr ? request->comm->handle : world_handle,
                              code);
  return code;
}

void watch_started(Request* request) {
  if (state.settings.check == Check::calls) [[unlikely]]
    watch_buffers(*request);
}

int handle_Start(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Start(handle);
  Request* request = request_of(*handle);
  if (!request->persistent || request->started) return fail(request, MPI_ERR_REQUEST);
  if (request->transfer != nullptr) {
    request->started = true;
    const Status status = start_message(*request);
    if (status.ok()) watch_started(request);
    return status.ok() ? MPI_SUCCESS : raise(*request->comm, request->call, status);
  }
  const double begin = state.report ? now() : 0;
  if (const Status ready = request->plan.begin(); !ready.ok())
    return raise(*request->comm, request->call, state.job->fail(*request->operation, ready));
  request->started = true;
  request->settled = false;
  const Status status = state.job->restart(*request->operation);
  if (state.report) {
    count_taken(request->call,
                state.job->algorithm(*request->comm->nonblocking, request->plan.call),
                request->plan.bytes(), now() - begin);
  }
  if (status.ok()) {
    watch_started(request);
    return MPI_SUCCESS;
  }
  request->started = false;
  return raise(*request->comm, request->call, status);
}

int handle_Startall(int count, MPI_Request* requests) {
  if (!any_own(count, requests)) return native.Startall(count, requests);
  for (int i = 0; i < count; ++i) {
    const int code = handle_Start(&requests[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// MPI does not allow it for collectives, nor for MPI_Isendrecv.
int handle_Cancel(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Cancel(handle);
  Request* request = request_of(*handle);
  if (request->at_once) return MPI_SUCCESS;  // too late
  if (request->transfer == nullptr || request->sending != nullptr)
    return fail(request, MPI_ERR_REQUEST);
  if (request->started) state.messages->cancel(*request->transfer);
  return MPI_SUCCESS;
}

int handle_Request_free(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Request_free(handle);
  abandon(request_of(*handle));
  *handle = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

// ---- conversions

MPI_Fint handle_Request_c2f(MPI_Request handle) {
  return is_own(handle) ? fortran_index(*request_of(handle)) : native.Request_c2f(handle);
}

MPI_Request handle_Request_f2c(MPI_Fint index) {
  const Request* request = request_of_fortran(index);
  return request != nullptr ? handle_of(*request) : native.Request_f2c(index);
}

int handle_Request_toint(MPI_Request handle) {
  return is_own(handle) ? fortran_index(*request_of(handle)) : native.Request_toint(handle);
}

MPI_Request handle_Request_fromint(int index) {
  const Request* request = request_of_fortran(index);
  return request != nullptr ? handle_of(*request) : native.Request_fromint(index);
}

}  // namespace

void install_starts(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Start);
  TUTTI_INSTALL(Startall);
  TUTTI_INSTALL(Cancel);
  TUTTI_INSTALL(Request_free);
  TUTTI_INSTALL(Request_c2f);
  TUTTI_INSTALL(Request_f2c);
  TUTTI_INSTALL(Request_toint);
  TUTTI_INSTALL(Request_fromint);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
