// MPI_Recv, MPI_Irecv and MPI_Recv_init.
#include "mpi/plugin/message_calls.hpp"

namespace tutti::mpi {

int receive_blocking(const char* call, Comm* comm, const End& end, const Data& data,
                     MPI_Status* status) {
  Packed packed;
  if (!packed.set(data)) return raise(*comm, call, kNoMemory);
  const Receipt receipt = counted(call, way_of(data.bytes), data.bytes, [&] {
    return state.messages->receive(*comm->group, packed.bytes(), packed.size(), source_of(end.peer),
                                   tag_of(end.tag));
  });
  const Status unpacks = packed.unpack(std::min(receipt.bytes, packed.size()));
  set_received(status, receipt);
  const Status outcome = receipt.status.ok() ? unpacks : receipt.status;
  if (outcome.ok()) [[likely]]
    return MPI_SUCCESS;
  return raise(*comm, call, outcome);
}

Status make_receive(Request& request, const End& end, const Data& data) noexcept {
  request.receives = true;
  request.peer = end.peer;
  request.tag = end.tag;
  if (!request.in.set(data)) return kNoMemory;
  Group& group = *request.comm->group;
  const int source = source_of(end.peer), tag = tag_of(end.tag);
  if (request.persistent) {
    return state.messages->prepare_receive(group, request.in.bytes(), request.in.size(), source,
                                           tag, &request.transfer);
  }
  return state.messages->start_receive(group, request.in.bytes(), request.in.size(), source, tag,
                                       &request.transfer);
}

namespace {

/// A receive into the user's memory as it is, whose message may have come already.
inline int receive_in_place(Request* request, const char* call, Comm& comm, const End& end,
                            const Data& data, MPI_Request* out) noexcept {
  if (request == nullptr) return raise(comm, call, kNoMemory);
  const double begin = state.report ? now() : 0;
  const Status status = state.messages->receive_or_start(*comm.group, data.user, data.bytes,
                                                         source_of(end.peer), tag_of(end.tag),
                                                         &request->found, &request->transfer);
  if (!status.ok()) [[unlikely]] {
    free_request(request);
    return raise(comm, call, status);
  }
  request->started = true;
  request->at_once = request->transfer == nullptr;
  if (!request->at_once) {
    dedicate(*request, call, comm, false);
    request->receives = request->in_place = true;
    request->peer = end.peer;
    request->tag = end.tag;
  }
  if (state.report) [[unlikely]]
    count_taken(call, request->at_once ? "eager" : way_of(data.bytes), data.bytes, now() - begin);
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

template <class NativeFunction>
int run_irecv(const char* call, bool persistent, const End& end, MPI_Comm handle, MPI_Request* out,
              NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_receive(comm, end, &data);
  if (!persistent && is_idle(reason, end))
    return hand_out_idle(allocate_request(), call, *comm, out);
  if (reason != Reason::none) return pass_on(call, comm, in_report(reason, handle), call_native);
  Request* const request = allocate_request();
  if (!persistent && data.dense() && state.settings.check != Check::calls)
    return receive_in_place(request, call, *comm, end, data, out);
  return hand_out(request, call, *comm, persistent, data.bytes, out,
                  [&](Request& made) { return make_receive(made, end, data); });
}

// ---- entry points: message_NAME(the arguments of MPI_NAME, the MPI's own call)

template <class NativeFunction>
int message_Recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                 MPI_Comm handle, MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  const End end{buf, count, type, source, tag};
  Data data;
  const Reason reason = read_receive(comm, end, &data);
  if (reason == Reason::none) [[likely]]
    return receive_blocking("MPI_Recv", comm, end, data, status);
  if (is_idle(reason, end)) {
    set_nobody(status);
    return done_at_once("MPI_Recv");
  }
  return pass_on("MPI_Recv", comm, in_report(reason, handle), call_native);
}

template <class NativeFunction>
int message_Irecv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request* out, NativeFunction&& call_native) {
  return run_irecv("MPI_Irecv", false, End{buf, count, type, source, tag}, comm, out, call_native);
}

template <class NativeFunction>
int message_Recv_init(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                      MPI_Comm comm, MPI_Request* out, NativeFunction&& call_native) {
  return run_irecv("MPI_Recv_init", true, End{buf, count, type, source, tag}, comm, out,
                   call_native);
}

#include "mpi/generated/message_receives.inc"

}  // namespace

void install_message_receives(void** handlers) noexcept { install_handlers(handlers); }

}  // namespace tutti::mpi
