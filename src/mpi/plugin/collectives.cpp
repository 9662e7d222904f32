// Entry points of the collectives: every form, plain and large.
#include <new>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr Status kNoMemory =
    Status::error(Code::no_memory, "no memory for packed data, or for the communicator");

template <class Args>
Reason plan_call(const Args& args, const Comm* comm, bool blocking, Plan* plan) noexcept {
  if (comm == nullptr || (blocking ? comm->team : comm->nonblocking) == nullptr)
    return Reason::communicator;
  try {
    return make_plan(args, *comm, blocking, plan);
  } catch (const std::bad_alloc&) {
    return Reason::no_memory;
  }
}

// With copies before and after, or in the report.
int run_plan_attended(const char* call, Comm& comm, const Plan& plan) {
  const double begin = state.report ? now() : 0;
  if (const Status ready = plan.begin(); !ready.ok()) [[unlikely]]
    return refuse(comm, comm.team, call, ready);
  Status status = state.job->run(*comm.team, plan.call);
  if (status.ok()) status = plan.finish();
  if (state.report)
    count_taken(call, state.job->algorithm(*comm.team, plan.call), plan.call.bytes, now() - begin);
  if (!status.ok()) return raise(comm, call, status);
  return plan.staging && plan.staging->user ? plan.staging->user->error : MPI_SUCCESS;
}

int run_plan(const char* call, Comm& comm, const Plan& plan) {
  if (plan.staging || state.report) [[unlikely]]
    return run_plan_attended(call, comm, plan);
  const Status status = state.job->run(*comm.team, plan.call);
  return status.ok() ? MPI_SUCCESS : raise(comm, call, status);
}

template <class Args, class NativeFunction>
int run_blocking(const char* call, const Args& args, NativeFunction&& call_native) {
  Comm* comm = find_comm(args.comm);
  if (comm == nullptr) [[unlikely]]
    comm = find_or_adopt(args.comm);
  if (comm != nullptr && comm->team == nullptr) [[unlikely]] {
    if (const Status opened = open_blocking(*comm); !opened.ok()) return raise(*comm, call, opened);
  }
  Plan plan;
  const Reason reason = plan_call(args, comm, true, &plan);
  if (reason == Reason::none) [[likely]]
    return run_plan(call, *comm, plan);
  if (reason == Reason::no_memory) return refuse(*comm, comm->team, call, kNoMemory);
  return pass(call, in_report(reason, args.comm), call_native);
}

// A request with a plan, or null and the reason why not.
template <class Args>
Request* plan_request(const char* call, const Args& args, Reason* reason) {
  Comm* comm = find_or_adopt(args.comm);
  *reason = Reason::communicator;
  if (comm == nullptr) return nullptr;
  if (comm->nonblocking == nullptr && !open_nonblocking(*comm).ok()) {
    *reason = Reason::no_memory;
    return nullptr;
  }
  if (comm->nonblocking == nullptr) return nullptr;
  Request* request = allocate_request();
  if (request == nullptr) {
    *reason = Reason::no_memory;
    return nullptr;
  }
  *reason = plan_call(args, comm, false, &request->plan);
  if (*reason != Reason::none) {
    request->plan = Plan{};  // without an operation nobody else clears it
    free_request(request);
    return nullptr;
  }
  request->comm = comm;
  request->call = call;
  retain(comm);
  return request;
}

int cannot_begin(Comm& comm, const char* call) {
  return refuse(comm, comm.nonblocking, call, kNoMemory);
}

template <class Args, class NativeFunction>
int run_nonblocking(const char* call, const Args& args, MPI_Request* out,
                    NativeFunction&& call_native) {
  Reason reason;
  Request* request = plan_request(call, args, &reason);
  if (reason == Reason::no_memory) return cannot_begin(*find_comm(args.comm), call);
  if (request == nullptr) return pass(call, in_report(reason, args.comm), call_native);
  const double begin = state.report ? now() : 0;
  Comm& comm = *request->comm;
  if (const Status ready = request->plan.begin(); !ready.ok()) {
    request->plan = Plan{};
    free_request(request);
    return refuse(comm, comm.nonblocking, call, ready);
  }
  request->started = true;
  const Status status =
      state.job->start(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) {
    request->plan = Plan{};
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
  if (request == nullptr) return pass(call, in_report(reason, args.comm), call_native);
  Comm& comm = *request->comm;
  request->persistent = true;
  const Status status =
      state.job->prepare(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) {
    request->plan = Plan{};
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
