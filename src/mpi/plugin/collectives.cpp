// Entry points of the collectives: every form, plain and large.
#include <new>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr Status kNoMemory = Status::error(Code::no_memory, "no memory for packed data");

template <class Args>
Reason plan_call(const Args& args, const Comm* comm, bool blocking, Plan* plan) noexcept {
  if (comm == nullptr || comm->team == nullptr) return Reason::communicator;
  try {
    return make_plan(args, *comm, blocking, plan);
  } catch (const std::bad_alloc&) {
    return Reason::no_memory;
  }
}

Status run_plan(const char* call, Comm& comm, const Plan& plan) {
  if (!state.report) [[likely]] {
    plan.begin();
    const Status status = state.job->run(*comm.team, plan.call);
    if (status.ok()) plan.finish();
    return status;
  }
  const double begin = now();
  plan.begin();
  const Status status = state.job->run(*comm.team, plan.call);
  if (status.ok()) plan.finish();
  count_taken(call, state.job->algorithm(*comm.team, plan.call), plan.call.bytes, now() - begin);
  return status;
}

template <class Args, class NativeFunction>
int run_blocking(const char* call, const Args& args, NativeFunction&& call_native) {
  Comm* comm = find_comm(args.comm);
  if (comm == nullptr) [[unlikely]]
    comm = find_or_adopt(args.comm);
  Plan plan;
  const Reason reason = plan_call(args, comm, true, &plan);
  if (reason == Reason::none) [[likely]] {
    const Status status = run_plan(call, *comm, plan);
    if (!status.ok()) [[unlikely]]
      return raise(*comm, call, status);
    if (plan.staging && plan.staging->user) return plan.staging->user->error;
    return MPI_SUCCESS;
  }
  if (reason == Reason::no_memory)
    return raise(*comm, call, state.job->fail(*comm->team, kNoMemory));
  return pass(call, reason, call_native);
}

// A request with a plan, or null and the reason why not.
template <class Args>
Request* plan_request(const char* call, const Args& args, Reason* reason) {
  Comm* comm = find_comm(args.comm);
  *reason = Reason::communicator;
  if (comm == nullptr || comm->team == nullptr) return nullptr;
  Request* request = allocate_request();
  if (request == nullptr) {
    *reason = Reason::no_memory;
    return nullptr;
  }
  *reason = plan_call(args, comm, false, &request->plan);
  if (*reason != Reason::none) {
    free_request(request);
    return nullptr;
  }
  request->comm = comm;
  request->call = call;
  retain(comm);
  return request;
}

// The others may begin without this rank: they are told.
int cannot_begin(Comm& comm, const char* call) {
  return raise(comm, call, state.job->fail(*comm.nonblocking, kNoMemory));
}

template <class Args, class NativeFunction>
int run_nonblocking(const char* call, const Args& args, MPI_Request* out,
                    NativeFunction&& call_native) {
  Reason reason;
  Request* request = plan_request(call, args, &reason);
  if (reason == Reason::no_memory) return cannot_begin(*find_comm(args.comm), call);
  if (request == nullptr) return pass(call, reason, call_native);
  const double begin = state.report ? now() : 0;
  Comm& comm = *request->comm;
  request->plan.begin();
  request->started = true;
  const Status status =
      state.job->start(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) {
    free_request(request);
    return raise(comm, call, status);
  }
  if (state.report) {
    count_taken(call, state.job->algorithm(*comm.nonblocking, request->plan.call),
                request->plan.call.bytes, now() - begin);
  }
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

template <class Args, class NativeFunction>
int run_persistent(const char* call, const Args& args, MPI_Request* out,
                   NativeFunction&& call_native) {
  Reason reason;
  Request* request = plan_request(call, args, &reason);
  if (reason == Reason::no_memory) return cannot_begin(*find_comm(args.comm), call);
  if (request == nullptr) return pass(call, reason, call_native);
  Comm& comm = *request->comm;
  request->persistent = true;
  const Status status =
      state.job->prepare(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) {
    free_request(request);
    return raise(comm, call, status);
  }
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

#include "mpi/generated/collective_handlers.inc"

}  // namespace

void install_collectives(void** handlers) noexcept { install_collective_handlers(handlers); }

}  // namespace tutti::mpi
