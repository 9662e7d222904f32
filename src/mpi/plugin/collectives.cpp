// Entry points of the collectives: every form, plain and large.
#include <climits>
#include <new>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/record.hpp"
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

constexpr int kLeft = INT_MIN;  // no MPI has such an error: the core leaves the call to the MPI

// Why the core has left a call, for the report: another look at the rules.
[[gnu::cold]] Reason reason_left(const Team& team, const Call& call) {
  return state.report ? left(team, call) : Reason::built_in;
}

// What is not a success.
[[gnu::cold]] int end_badly(const char* call, Comm& comm, const Status& status) {
  return status.code == Code::left_to_host ? kLeft : raise(comm, call, status);
}

// With copies before and after, or in the report.
int run_plan_attended(const char* call, Comm& comm, const Plan& plan) {
  const double begin = now();
  const char* const algorithm = state.report ? state.job->algorithm(*comm.team, plan.call) : "";
  if (const Status ready = plan.begin(); !ready.ok()) [[unlikely]]
    return refuse(comm, comm.team, call, ready);
  Call the_call = plan.call;
  the_call.copied = plan.staging != nullptr;
  Route route;
  Status status = state.job->run(*comm.team, the_call, &route);
  if (route.choice != nullptr && has_parcels(the_call.coll)) comm.known.keep(the_call.coll, route);
  if (status.ok()) status = plan.finish();
  if (status.ok() && state.job->awaits_time(*comm.team))
    status = state.job->took(*comm.team, ns_since(begin));
  if (state.report && status.code != Code::left_to_host)
    count_taken(call, algorithm, plan.bytes(), now() - begin);
  if (state.report && has_parcels(plan.call.coll)) note_bytes(comm, plan.bytes());
  if (!status.ok()) return end_badly(call, comm, status);
  return plan.staging && plan.staging->user ? plan.staging->user->error : MPI_SUCCESS;
}

// Or kLeft. What can be remembered of the plan is.
template <class Args>
int run_plan(const char* call, const Args& args, Comm& comm, const Plan& plan) {
  if (plan.staging || state.report) return run_plan_attended(call, comm, plan);
  Route route;
  const Status status = state.job->run(*comm.team, plan.call, &route);
  if (route.choice != nullptr) {
    note_route(comm, route);
    if constexpr (has_parcels(Args::kColl)) {
      comm.known.keep(Args::kColl, route);
    } else {
      comm.known.keep(args, comm.rank, plan.call, route);
    }
  }
  return status.ok() ? MPI_SUCCESS : end_badly(call, comm, status);
}

// Of a call that the core has left to the MPI; it wants to know how long one on trial takes. Apart,
// so that the others save fewer registers.
template <class NativeFunction>
[[gnu::cold, gnu::noinline]] int run_left(const char* call, Comm& comm, const Call& what,
                                          NativeFunction&& call_native) {
  const Reason reason = reason_left(*comm.team, what);
  if (!state.job->awaits_time(*comm.team)) return pass(call, reason, call_native, what.bytes);
  const double begin = now();
  const int code = pass(call, reason, call_native, what.bytes);
  const Status status = state.job->took(*comm.team, ns_since(begin));
  return status.ok() ? code : raise(comm, call, status);
}

// How a call with a known route has gone.
template <class NativeFunction>
int end_known(const char* call, Comm& comm, const Call& what, const Status& status,
              NativeFunction&& call_native) {
  if (status.ok()) [[likely]]
    return MPI_SUCCESS;
  const int code = end_badly(call, comm, status);
  return code != kLeft ? code : run_left(call, comm, what, call_native);
}

template <class Args, class NativeFunction>
[[gnu::noinline]] int run_unknown(const char* call, Args args, NativeFunction call_native) {
  Comm* comm = find_or_adopt(args.comm);
  if (comm != nullptr) note_begin(args, *comm);
  if (comm != nullptr && comm->team == nullptr) [[unlikely]] {
    if (const Status opened = open_blocking(*comm); !opened.ok()) return raise(*comm, call, opened);
  }
  Plan plan;
  Reason reason = plan_call(args, comm, true, &plan);
  if (reason == Reason::none) [[likely]] {
    note_known(args, *comm, plan.call.bytes, plan.call.reduction);
    const int code = run_plan(call, args, *comm, plan);
    return code != kLeft ? code : run_left(call, *comm, plan.call, call_native);
  }
  if (reason == Reason::no_memory) return refuse(*comm, comm->team, call, kNoMemory);
  if (comm != nullptr) note_known(args, *comm, TUTTI_NO_BYTES, nullptr);  // the MPI runs it
  return pass(call, in_report(reason, args.comm), call_native, plan.call.bytes);
}

template <class Args>
[[gnu::cold, gnu::noinline]] bool is_wrong(const Args& args, const Comm& comm) noexcept {
  Plan plan;
  return plan_call(args, &comm, true, &plan) == Reason::arguments;
}

// Nobody has to read the lists of what the MPI runs. A call whose arguments are wrong on this rank
// alone is made again, and must not count: the ranks would begin their next trial at different
// calls.
template <class Args, class NativeFunction>
int run_listed_left(const char* call, const Args& args, Comm& comm, const Route& route,
                    NativeFunction&& call_native) {
  note_call(args, comm, TUTTI_NO_BYTES, what_left(Args::kColl));
  const int code = pass(call, Reason::built_in, call_native);
  if (code == MPI_SUCCESS || !is_wrong(args, comm)) state.job->count_left(route);
  return code;
}

// Of a collective of which each rank knows but its own counts.
template <class Args, class NativeFunction>
int run_listed(const char* call, Args args, Comm& comm, NativeFunction call_native) {
  const KnownCall* const known = comm.known.find(Args::kColl);
  if (known == nullptr) return run_unknown(call, args, call_native);
  if (state.job->leaves(known->route()))
    return run_listed_left(call, args, comm, known->route(), call_native);
  if (!read_plain(args, &comm)) return run_unknown(call, args, call_native);
  Call the_call;
  the_call.coll = Args::kColl;
  if constexpr (requires { args.root; }) the_call.root = args.root;
  the_call.parcels = comm.parcels.get();
  note_call(args, comm, 0, known->what());
  return end_known(call, comm, the_call, state.job->run_by(known->route(), *comm.team, the_call),
                   call_native);
}

// By value: what is handed on by reference would have to be in memory, for known calls, too.
template <class Args, class NativeFunction>
int run_blocking(const char* call, Args args, NativeFunction call_native) {
  Comm* const comm = find_comm(args.comm);
  if (comm == nullptr || state.attends) [[unlikely]]
    return run_unknown(call, args, call_native);
  if constexpr (has_parcels(Args::kColl)) return run_listed(call, args, *comm, call_native);
  Call the_call;
  const KnownCall* const known = comm->known.find(args, comm->rank, comm->size, &the_call);
  if (known == nullptr) return run_unknown(call, args, call_native);
  note_call(args, *comm, the_call.bytes, known->what());
  return end_known(call, *comm, the_call,
                   state.job->run_by(known->route(), *comm->team, the_call), call_native);
}

void free_unstarted(Request* request) {
  request->plan = Plan{};  // without an operation nobody else clears it
  free_request(request);
}

// Why a call has no request of tutti's, and its bytes as far as they are known.
struct NotTaken {
  Reason reason = Reason::communicator;
  std::size_t bytes = 0;
};

// A request with a plan, or null and why not.
template <class Args>
Request* plan_request(const char* call, const Args& args, NotTaken* why) {
  Comm* comm = find_or_adopt(args.comm);
  if (comm == nullptr) return nullptr;
  if (comm->nonblocking == nullptr && !open_nonblocking(*comm).ok()) {
    why->reason = Reason::no_memory;
    return nullptr;
  }
  if (comm->nonblocking == nullptr) return nullptr;
  Request* request = allocate_request();
  if (request == nullptr) {
    why->reason = Reason::no_memory;
    return nullptr;
  }
  why->reason = plan_call(args, comm, false, &request->plan);
  if (why->reason != Reason::none) {
    why->bytes = request->plan.call.bytes;
    free_unstarted(request);
    return nullptr;
  }
  request->comm = comm;
  request->call = call;
  note_made(args, *comm, request);
  retain(comm);
  return request;
}

// There is none.
template <class NativeFunction>
int end_unplanned(const char* call, MPI_Comm handle, const NotTaken& why,
                  NativeFunction&& call_native) {
  if (why.reason != Reason::no_memory)
    return pass(call, in_report(why.reason, handle), call_native, why.bytes);
  Comm& comm = *find_comm(handle);
  return refuse(comm, comm.nonblocking, call, kNoMemory);
}

// The core has refused it, or leaves it to the MPI.
template <class NativeFunction>
int end_unstarted(Request* request, const Status& status, NativeFunction&& call_native) {
  Comm& comm = *request->comm;
  const char* const call = request->call;
  NotTaken why{Reason::none, request->plan.call.bytes};
  if (status.code == Code::left_to_host)
    why.reason = reason_left(*comm.nonblocking, request->plan.call);
  free_unstarted(request);
  if (why.reason != Reason::none) return pass(call, why.reason, call_native, why.bytes);
  return raise(comm, call, status);
}

template <class Args, class NativeFunction>
int run_nonblocking(const char* call, const Args& args, MPI_Request* out,
                    NativeFunction&& call_native) {
  NotTaken why;
  Request* request = plan_request(call, args, &why);
  if (request == nullptr) [[unlikely]]
    return end_unplanned(call, args.comm, why, call_native);
  const double begin = state.report ? now() : 0;
  Comm& comm = *request->comm;
  if (const Status ready = request->plan.begin(); !ready.ok()) {
    free_unstarted(request);
    return refuse(comm, comm.nonblocking, call, ready);
  }
  request->started = true;
  const Status status =
      state.job->start(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) [[unlikely]]
    return end_unstarted(request, status, call_native);
  if (state.report) {
    count_taken(call, state.job->algorithm(*comm.nonblocking, request->plan.call),
                request->plan.bytes(), now() - begin);
  }
  if (state.settings.check == Check::calls) watch_buffers(*request);
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

template <class Args, class NativeFunction>
int run_persistent(const char* call, const Args& args, MPI_Request* out,
                   NativeFunction&& call_native) {
  NotTaken why;
  Request* request = plan_request(call, args, &why);
  if (request == nullptr) [[unlikely]]
    return end_unplanned(call, args.comm, why, call_native);
  Comm& comm = *request->comm;
  request->persistent = true;
  const Status status =
      state.job->prepare(*comm.nonblocking, request->plan.call, &request->operation);
  if (!status.ok()) [[unlikely]]
    return end_unstarted(request, status, call_native);
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

#include "mpi/generated/collective_handlers.inc"

}  // namespace

void install_collectives(void** handlers) noexcept { install_collective_handlers(handlers); }

}  // namespace tutti::mpi
