// Probes, and the messages that matched probes have taken.
#include "mpi/plugin/message_calls.hpp"

#include <utility>

namespace tutti::mpi {
namespace {

template <class NativeFunction>
int run_probe(const char* call, int source, int tag, Comm* comm, MPI_Comm handle,
              p2p::Arrival** message, MPI_Status* status, NativeFunction&& call_native) {
  const Reason reason = check_receive(comm, source, tag);
  if (reason == Reason::nobody && message == nullptr) {
    set_nobody(status);
    return done_at_once(call);
  }
  if (reason != Reason::none) return pass(call, in_report(reason, handle), call_native);
  const Receipt found = counted(call, "eager", 0, [&] {
    return state.messages->take(*comm->group, source_of(source), tag_of(tag), message);
  });
  if (!found.status.ok()) return raise(*comm, call, found.status);
  set_received(status, found);
  return MPI_SUCCESS;
}

template <class NativeFunction>
int run_iprobe(const char* call, int source, int tag, Comm* comm, MPI_Comm handle, int* flag,
               p2p::Arrival** message, MPI_Status* status, NativeFunction&& call_native) {
  const Reason reason = check_receive(comm, source, tag);
  if (reason == Reason::nobody && message == nullptr) {
    *flag = 1;
    set_nobody(status);
    return done_at_once(call);
  }
  if (reason != Reason::none) return pass(call, in_report(reason, handle), call_native);
  Receipt found;
  *flag = state.messages->take_now(*comm->group, source_of(source), tag_of(tag), &found, message);
  if (!*flag) {
    pump_host();
    return MPI_SUCCESS;
  }
  if (!found.status.ok()) return raise(*comm, call, found.status);
  set_received(status, found);
  return MPI_SUCCESS;
}

// ---- matched messages: their handles are those of requests

MPI_Request as_request(MPI_Message message) noexcept {
  return handle_from<MPI_Request>(key(message));
}
MPI_Message as_message(MPI_Request request) noexcept {
  return handle_from<MPI_Message>(key(request));
}

Request* own_message(const MPI_Message* message) noexcept {
  if (message == nullptr || !is_own(as_request(*message))) return nullptr;
  return request_of(as_request(*message));
}

int hand_out_message(const char* call, Comm& comm, p2p::Arrival* arrival, MPI_Message* out) {
  Request* request = allocate_request();
  if (request == nullptr) {
    state.messages->discard(arrival);
    return raise(comm, call, kNoMemory);
  }
  dedicate(*request, call, comm, false);
  request->message = arrival;
  *out = as_message(handle_of(*request));
  return MPI_SUCCESS;
}

// ---- entry points: message_NAME(the arguments of MPI_NAME, the MPI's own call)

template <class NativeFunction>
int message_Probe(int source, int tag, MPI_Comm handle, MPI_Status* status,
                  NativeFunction&& call_native) {
  return run_probe("MPI_Probe", source, tag, find_messages(handle), handle, nullptr, status,
                   call_native);
}

template <class NativeFunction>
int message_Iprobe(int source, int tag, MPI_Comm handle, int* flag, MPI_Status* status,
                   NativeFunction&& call_native) {
  return run_iprobe("MPI_Iprobe", source, tag, find_messages(handle), handle, flag, nullptr, status,
                    call_native);
}

template <class NativeFunction>
int message_Mprobe(int source, int tag, MPI_Comm handle, MPI_Message* message, MPI_Status* status,
                   NativeFunction&& call_native) {
  Comm* const comm = find_messages(handle);
  p2p::Arrival* arrival = nullptr;
  const int code =
      run_probe("MPI_Mprobe", source, tag, comm, handle, &arrival, status, call_native);
  return arrival == nullptr ? code : hand_out_message("MPI_Mprobe", *comm, arrival, message);
}

template <class NativeFunction>
int message_Improbe(int source, int tag, MPI_Comm handle, int* flag, MPI_Message* message,
                    MPI_Status* status, NativeFunction&& call_native) {
  Comm* const comm = find_messages(handle);
  p2p::Arrival* arrival = nullptr;
  const int code =
      run_iprobe("MPI_Improbe", source, tag, comm, handle, flag, &arrival, status, call_native);
  return arrival == nullptr ? code : hand_out_message("MPI_Improbe", *comm, arrival, message);
}

template <class NativeFunction>
int message_Mrecv(void* buf, MPI_Count count, MPI_Datatype type, MPI_Message* message,
                  MPI_Status* status, NativeFunction&& call_native) {
  Request* taken = own_message(message);
  if (taken == nullptr) return pass("MPI_Mrecv", Reason::communicator, call_native);
  Comm& comm = *taken->comm;
  Data data;
  Packed packed;
  const Reason reason = read_data(buf, count, type, &data);
  if (reason == Reason::no_memory) return raise(comm, "MPI_Mrecv", kNoMemory);
  if (reason != Reason::none) {
    native.Comm_call_errhandler(comm.handle, MPI_ERR_ARG);
    return MPI_ERR_ARG;
  }
  if (!packed.set(data)) return raise(comm, "MPI_Mrecv", kNoMemory);
  const Receipt receipt = counted("MPI_Mrecv", way_of(data.bytes), data.bytes, [&] {
    return state.messages->receive_taken(std::exchange(taken->message, nullptr), packed.bytes(),
                                         packed.size());
  });
  const Status unpacks = packed.unpack(std::min(receipt.bytes, packed.size()));
  set_received(status, receipt);
  *message = MPI_MESSAGE_NULL;
  const Status outcome = receipt.status.ok() ? unpacks : receipt.status;
  const int code = outcome.ok() ? MPI_SUCCESS : raise(comm, "MPI_Mrecv", outcome);
  free_request(taken);
  return code;
}

/// The request of the message becomes that of the receive.
template <class NativeFunction>
int message_Imrecv(void* buf, MPI_Count count, MPI_Datatype type, MPI_Message* message,
                   MPI_Request* out, NativeFunction&& call_native) {
  Request* request = own_message(message);
  if (request == nullptr) return pass("MPI_Imrecv", Reason::communicator, call_native);
  Comm& comm = *request->comm;
  Data data;
  const Reason reason = read_data(buf, count, type, &data);
  if (reason == Reason::no_memory) return raise(comm, "MPI_Imrecv", kNoMemory);
  if (reason != Reason::none) {
    native.Comm_call_errhandler(comm.handle, MPI_ERR_ARG);
    return MPI_ERR_ARG;
  }
  if (!request->in.set(data)) return raise(comm, "MPI_Imrecv", kNoMemory);
  const Status status = counted("MPI_Imrecv", way_of(data.bytes), data.bytes, [&] {
    return state.messages->start_receive_taken(request->message, request->in.bytes(),
                                               request->in.size(), &request->transfer);
  });
  if (!status.ok()) return raise(comm, "MPI_Imrecv", status);
  request->message = nullptr;
  request->call = "MPI_Imrecv";
  request->receives = request->started = true;
  *message = MPI_MESSAGE_NULL;
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

template <class NativeFunction>
MPI_Fint message_Message_c2f(MPI_Message message, NativeFunction&& call_native) {
  Request* own = own_message(&message);
  return own != nullptr ? fortran_index(*own) : call_native();
}

template <class NativeFunction>
MPI_Message message_Message_f2c(MPI_Fint index, NativeFunction&& call_native) {
  const Request* request = request_of_fortran(index);
  return request != nullptr ? as_message(handle_of(*request)) : call_native();
}

template <class NativeFunction>
int message_Message_toint(MPI_Message message, NativeFunction&& call_native) {
  return message_Message_c2f(message, call_native);
}

template <class NativeFunction>
MPI_Message message_Message_fromint(int index, NativeFunction&& call_native) {
  return message_Message_f2c(index, call_native);
}

#include "mpi/generated/message_probes.inc"

}  // namespace

void install_message_probes(void** handlers) noexcept { install_handlers(handlers); }

}  // namespace tutti::mpi
