// Point-to-point: sends, receives and probes on communicators whose messages are tutti's. All of
// such a communicator's messages are; all others are the MPI's, and so is whatever concerns
// MPI_PROC_NULL or has wrong arguments.
#include "mpi/plugin/messages.hpp"

#include <algorithm>
#include <climits>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/packed.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/split.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr Status kNoMemory = Status::error(Code::no_memory, "no memory for a message");

int largest_tag = INT_MAX;  // MPI_TAG_UB; written once, before the handlers are in place

void set_count(MPI_Status* status, std::size_t bytes, bool cancelled) noexcept {
#if defined(TUTTI_ABI_MPICH)
  status->count_lo = static_cast<int>(static_cast<unsigned>(bytes));
  status->count_hi_and_cancelled = static_cast<int>((bytes >> 32) << 1 | cancelled);
#elif defined(TUTTI_ABI_OPENMPI)
  status->ucount = bytes;
  status->cancelled = cancelled;
#else
  // What the standard's status holds of this is the MPI's own affair.
  const int error = status->MPI_ERROR;
  if (native.Status_set_elements_x != nullptr) {
    native.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  } else {
    native.Status_set_elements(status, MPI_BYTE, static_cast<int>(bytes));
  }
  native.Status_set_cancelled(status, cancelled);
  status->MPI_ERROR = error;
#endif
}

void set_received(MPI_Status* status, const Receipt& receipt) noexcept {
  if (status != MPI_STATUS_IGNORE)
    set_status(status, receipt.source, receipt.tag, receipt.bytes, receipt.cancelled);
}

void set_nobody(MPI_Status* status) noexcept {
  if (status != MPI_STATUS_IGNORE) set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
}

// ---- arguments: why a call is not tutti's

Reason check_peer(const Comm& comm, int rank, int nobody) noexcept {
  if (rank >= 0 && rank < comm.size) [[likely]]
    return Reason::none;
  return rank == nobody ? Reason::nobody : Reason::arguments;
}

Reason check_send(const Comm* comm, int destination, int tag) noexcept {
  if (comm == nullptr) return Reason::communicator;
  if (tag < 0 || tag > largest_tag) return Reason::arguments;
  return check_peer(*comm, destination, MPI_PROC_NULL);
}

Reason check_receive(const Comm* comm, int source, int tag) noexcept {
  if (comm == nullptr) return Reason::communicator;
  if ((tag < 0 && tag != MPI_ANY_TAG) || tag > largest_tag) return Reason::arguments;
  if (source == MPI_ANY_SOURCE) return Reason::none;
  return check_peer(*comm, source, MPI_PROC_NULL);
}

int source_of(int source) noexcept { return source == MPI_ANY_SOURCE ? kAnySource : source; }
int tag_of(int tag) noexcept { return tag == MPI_ANY_TAG ? kAnyTag : tag; }

/// One end of a call: peer, tag and data, as the program gave them.
struct End {
  const void* buffer;
  MPI_Count count;
  MPI_Datatype type;
  int peer;
  int tag;
};

Reason read_send(const Comm* comm, const End& end, Data* data) noexcept {
  const Reason reason = check_send(comm, end.peer, end.tag);
  if (reason != Reason::none) return reason;
  return read_data(end.buffer, end.count, end.type, data);
}

Reason read_receive(const Comm* comm, const End& end, Data* data) noexcept {
  const Reason reason = check_receive(comm, end.peer, end.tag);
  if (reason != Reason::none) return reason;
  return read_data(end.buffer, end.count, end.type, data);
}

/// Passes a call on that is not tutti's, or fails one for which there is no memory: the other end
/// waits for it in tutti.
template <class NativeFunction>
int pass_on(const char* call, Comm* comm, Reason reason, NativeFunction&& call_native) {
  if (reason == Reason::no_memory) return raise(*comm, call, kNoMemory);
  return pass(call, reason, call_native);
}

// ---- the report

const char* way_of(std::size_t bytes) noexcept {
  return bytes <= state.messages->options().eager ? "eager" : "rendezvous";
}

/// Runs `function`, and counts it.
template <class Function>
auto counted(const char* call, const char* way, std::size_t bytes, Function&& function) {
  if (!state.report) [[likely]]
    return function();
  const double begin = now();
  auto result = function();
  count_taken(call, way, bytes, now() - begin);
  return result;
}

// ---- blocking

int send(const char* call, SendMode mode, const Comm* comm, const End& end, const Data& data) {
  Packed packed;
  if (!packed.set(data)) return raise(const_cast<Comm&>(*comm), call, kNoMemory);
  if (const Status packs = packed.pack(); !packs.ok())
    return raise(const_cast<Comm&>(*comm), call, packs);
  const Status status = counted(call, way_of(data.bytes), data.bytes, [&] {
    return state.messages->send(*comm->team, packed.bytes(), packed.size(), end.peer, end.tag,
                                mode);
  });
  if (status.ok()) [[likely]]
    return MPI_SUCCESS;
  return raise(const_cast<Comm&>(*comm), call, status);
}

template <class NativeFunction>
int run_send(const char* call, SendMode mode, const End& end, MPI_Comm handle,
             NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_send(comm, end, &data);
  if (reason == Reason::none) [[likely]]
    return send(call, mode, comm, end, data);
  return pass_on(call, comm, in_report(reason, handle), call_native);
}

int receive(const char* call, Comm* comm, const End& end, const Data& data, MPI_Status* status) {
  Packed packed;
  if (!packed.set(data)) return raise(*comm, call, kNoMemory);
  const Receipt receipt = counted(call, way_of(data.bytes), data.bytes, [&] {
    return state.messages->receive(*comm->team, packed.bytes(), packed.size(), source_of(end.peer),
                                   tag_of(end.tag));
  });
  const Status unpacks = packed.unpack(std::min(receipt.bytes, packed.size()));
  set_received(status, receipt);
  const Status outcome = receipt.status.ok() ? unpacks : receipt.status;
  if (outcome.ok()) [[likely]]
    return MPI_SUCCESS;
  return raise(*comm, call, outcome);
}

/// Of a call with two ends: neither, one of them or both are with somebody.
template <class NativeFunction>
int run_sendrecv(const char* call, const End& out, const End& in, bool copied, MPI_Comm handle,
                 MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data sent, received;
  const Reason sends = read_send(comm, out, &sent);
  const Reason receives = read_receive(comm, in, &received);
  if (sends > Reason::nobody || receives > Reason::nobody)
    return pass_on(call, comm, std::max(sends, receives), call_native);
  if (comm == nullptr || (sends == Reason::nobody && receives == Reason::nobody))
    return pass(call, in_report(sends, handle), call_native);
  if (sends == Reason::nobody) return receive(call, comm, in, received, status);
  if (receives == Reason::nobody) {
    const int code = send(call, SendMode::standard, comm, out, sent);
    set_nobody(status);
    return code;
  }
  Packed packed_out, packed_in;
  if (!packed_out.set(sent, copied) || !packed_in.set(received))
    return raise(*comm, call, kNoMemory);
  if (const Status packs = packed_out.pack(); !packs.ok()) return raise(*comm, call, packs);
  const Receipt receipt = counted(call, way_of(sent.bytes), sent.bytes, [&] {
    return state.messages->exchange(*comm->team, packed_out.bytes(), packed_out.size(), out.peer,
                                    out.tag, packed_in.bytes(), packed_in.size(),
                                    source_of(in.peer), tag_of(in.tag));
  });
  const Status unpacks = packed_in.unpack(std::min(receipt.bytes, packed_in.size()));
  set_received(status, receipt);
  const Status outcome = receipt.status.ok() ? unpacks : receipt.status;
  return outcome.ok() ? MPI_SUCCESS : raise(*comm, call, outcome);
}

// ---- non-blocking and persistent

Request* make_request(const char* call, Comm& comm, bool persistent) noexcept {
  Request* request = allocate_request();
  if (request == nullptr) return nullptr;
  request->comm = &comm;
  request->call = call;
  request->persistent = persistent;
  retain(&comm);
  return request;
}

Status make_send(Request& request, SendMode mode, const End& end, const Data& data,
                 bool copied) noexcept {
  p2p::Transfer** place = request.receives ? &request.sending : &request.transfer;
  if (!request.out.set(data, copied)) return kNoMemory;
  Team& team = *request.comm->team;
  if (request.persistent) {
    return state.messages->prepare_send(team, request.out.bytes(), request.out.size(), end.peer,
                                        end.tag, mode, place);
  }
  TUTTI_TRY(request.out.pack());
  return state.messages->start_send(team, request.out.bytes(), request.out.size(), end.peer,
                                    end.tag, mode, place);
}

Status make_receive(Request& request, const End& end, const Data& data) noexcept {
  request.receives = true;
  if (!request.in.set(data)) return kNoMemory;
  Team& team = *request.comm->team;
  const int source = source_of(end.peer), tag = tag_of(end.tag);
  if (request.persistent) {
    return state.messages->prepare_receive(team, request.in.bytes(), request.in.size(), source, tag,
                                           &request.transfer);
  }
  return state.messages->start_receive(team, request.in.bytes(), request.in.size(), source, tag,
                                       &request.transfer);
}

/// The request of a message that needs none of its own; nullptr when it has not left at once.
Request* send_at_once(const char* call, const Comm& comm, const End& end,
                      const Data& data) noexcept {
  Request* const request = sent_request();
  if (request == nullptr) return nullptr;
  const double begin = state.report ? now() : 0;
  if (!state.messages->send_now(*comm.team, data.user, data.bytes, end.peer, end.tag))
    return nullptr;
  if (state.report) [[unlikely]]
    count_taken(call, "eager", data.bytes, now() - begin);
  return request;
}

/// Makes a request with `make(request)`, and gives it to the program.
template <class Make>
int hand_out(const char* call, Comm& comm, bool persistent, std::size_t bytes, MPI_Request* out,
             Make&& make) {
  Request* request = make_request(call, comm, persistent);
  if (request == nullptr) return raise(comm, call, kNoMemory);
  const Status status = persistent
                            ? make(*request)
                            : counted(call, way_of(bytes), bytes, [&] { return make(*request); });
  if (!status.ok()) {
    free_request(request);
    return raise(comm, call, status);
  }
  request->started = !persistent;
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

template <class NativeFunction>
int run_isend(const char* call, SendMode mode, bool persistent, const End& end, MPI_Comm handle,
              MPI_Request* out, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_send(comm, end, &data);
  if (reason != Reason::none) return pass_on(call, comm, in_report(reason, handle), call_native);
  if (!persistent && mode != SendMode::synchronous && data.dense()) {
    if (const Request* const sent = send_at_once(call, *comm, end, data)) {
      *out = handle_of(*sent);
      return MPI_SUCCESS;
    }
  }
  return hand_out(call, *comm, persistent, data.bytes, out,
                  [&](Request& request) { return make_send(request, mode, end, data, false); });
}

template <class NativeFunction>
int run_irecv(const char* call, bool persistent, const End& end, MPI_Comm handle, MPI_Request* out,
              NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_receive(comm, end, &data);
  if (reason != Reason::none) return pass_on(call, comm, in_report(reason, handle), call_native);
  return hand_out(call, *comm, persistent, data.bytes, out,
                  [&](Request& request) { return make_receive(request, end, data); });
}

template <class NativeFunction>
int run_isendrecv(const char* call, const End& out, const End& in, bool copied, MPI_Comm handle,
                  MPI_Request* made, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data sent, received;
  const Reason sends = read_send(comm, out, &sent);
  const Reason receives = read_receive(comm, in, &received);
  if (sends > Reason::nobody || receives > Reason::nobody)
    return pass_on(call, comm, std::max(sends, receives), call_native);
  if (comm == nullptr || (sends == Reason::nobody && receives == Reason::nobody))
    return pass(call, in_report(sends, handle), call_native);
  return hand_out(call, *comm, false, sent.bytes, made, [&](Request& request) {
    Status status;
    // What is sent is copied first: the buffer may be the one that is received into.
    if (copied && sends == Reason::none) {
      if (!request.out.set(sent, true)) return kNoMemory;
      TUTTI_TRY(request.out.pack());
    }
    request.nobody = receives == Reason::nobody;
    if (receives == Reason::none) status = make_receive(request, in, received);
    if (!status.ok() || sends == Reason::nobody) return status;
    if (!copied) return make_send(request, SendMode::standard, out, sent, false);
    return state.messages->start_send(*comm->team, request.out.bytes(), request.out.size(),
                                      out.peer, out.tag, SendMode::standard,
                                      request.receives ? &request.sending : &request.transfer);
  });
}

// ---- probes

template <class NativeFunction>
int run_probe(const char* call, int source, int tag, MPI_Comm handle, p2p::Arrival** message,
              MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  const Reason reason = check_receive(comm, source, tag);
  if (reason != Reason::none) return pass(call, in_report(reason, handle), call_native);
  const Receipt found = counted(call, "eager", 0, [&] {
    return state.messages->take(*comm->team, source_of(source), tag_of(tag), message);
  });
  if (!found.status.ok()) return raise(*comm, call, found.status);
  set_received(status, found);
  return MPI_SUCCESS;
}

template <class NativeFunction>
int run_iprobe(const char* call, int source, int tag, MPI_Comm handle, int* flag,
               p2p::Arrival** message, MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  const Reason reason = check_receive(comm, source, tag);
  if (reason != Reason::none) return pass(call, in_report(reason, handle), call_native);
  Receipt found;
  *flag = state.messages->take_now(*comm->team, source_of(source), tag_of(tag), &found, message);
  if (!*flag) {
    pump_host();
    return MPI_SUCCESS;
  }
  if (!found.status.ok()) return raise(*comm, call, found.status);
  set_received(status, found);
  return MPI_SUCCESS;
}

// ---- matched messages: their handles are those of requests

#if defined(TUTTI_ABI_MPICH)
MPI_Request as_request(MPI_Message message) noexcept { return message; }
MPI_Message as_message(MPI_Request request) noexcept { return request; }
#else
MPI_Request as_request(MPI_Message message) noexcept {
  return reinterpret_cast<MPI_Request>(message);
}
MPI_Message as_message(MPI_Request request) noexcept {
  return reinterpret_cast<MPI_Message>(request);
}
#endif

Request* own_message(const MPI_Message* message) noexcept {
  if (message == nullptr || !is_own(as_request(*message))) return nullptr;
  return request_of(as_request(*message));
}

int hand_out_message(const char* call, MPI_Comm handle, p2p::Arrival* arrival, MPI_Message* out) {
  Comm& comm = *find_messages(handle);
  Request* request = make_request(call, comm, false);
  if (request == nullptr) {
    state.messages->discard(arrival);
    return raise(comm, call, kNoMemory);
  }
  request->message = arrival;
  *out = as_message(handle_of(*request));
  return MPI_SUCCESS;
}

// ---- entry points: message_NAME(the arguments of MPI_NAME, the MPI's own call)

#define TUTTI_SEND(name, mode)                                                                \
  template <class NativeFunction>                                                             \
  int message_##name(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag,  \
                     MPI_Comm comm, NativeFunction&& call_native) {                           \
    return run_send("MPI_" #name, mode, End{buf, count, type, dest, tag}, comm, call_native); \
  }
#define TUTTI_ISEND(name, mode, persistent)                                                       \
  template <class NativeFunction>                                                                 \
  int message_##name(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag,      \
                     MPI_Comm comm, MPI_Request* out, NativeFunction&& call_native) {             \
    return run_isend("MPI_" #name, mode, persistent, End{buf, count, type, dest, tag}, comm, out, \
                     call_native);                                                                \
  }
TUTTI_SEND(Send, SendMode::standard)
TUTTI_SEND(Bsend, SendMode::buffered)
TUTTI_SEND(Ssend, SendMode::synchronous)
TUTTI_SEND(Rsend, SendMode::ready)
TUTTI_ISEND(Isend, SendMode::standard, false)
TUTTI_ISEND(Ibsend, SendMode::buffered, false)
TUTTI_ISEND(Issend, SendMode::synchronous, false)
TUTTI_ISEND(Irsend, SendMode::ready, false)
TUTTI_ISEND(Send_init, SendMode::standard, true)
TUTTI_ISEND(Bsend_init, SendMode::buffered, true)
TUTTI_ISEND(Ssend_init, SendMode::synchronous, true)
TUTTI_ISEND(Rsend_init, SendMode::ready, true)
#undef TUTTI_SEND
#undef TUTTI_ISEND

template <class NativeFunction>
int message_Recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                 MPI_Comm handle, MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  const End end{buf, count, type, source, tag};
  Data data;
  const Reason reason = read_receive(comm, end, &data);
  if (reason == Reason::none) [[likely]]
    return receive("MPI_Recv", comm, end, data, status);
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

template <class NativeFunction>
int message_Sendrecv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                     int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                     int source, int recvtag, MPI_Comm comm, MPI_Status* status,
                     NativeFunction&& call_native) {
  return run_sendrecv("MPI_Sendrecv", End{sendbuf, sendcount, sendtype, dest, sendtag},
                      End{recvbuf, recvcount, recvtype, source, recvtag}, false, comm, status,
                      call_native);
}

template <class NativeFunction>
int message_Sendrecv_replace(void* buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag,
                             int source, int recvtag, MPI_Comm comm, MPI_Status* status,
                             NativeFunction&& call_native) {
  return run_sendrecv("MPI_Sendrecv_replace", End{buf, count, type, dest, sendtag},
                      End{buf, count, type, source, recvtag}, true, comm, status, call_native);
}

template <class NativeFunction>
int message_Isendrecv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                      int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                      int source, int recvtag, MPI_Comm comm, MPI_Request* out,
                      NativeFunction&& call_native) {
  return run_isendrecv("MPI_Isendrecv", End{sendbuf, sendcount, sendtype, dest, sendtag},
                       End{recvbuf, recvcount, recvtype, source, recvtag}, false, comm, out,
                       call_native);
}

template <class NativeFunction>
int message_Isendrecv_replace(void* buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag,
                              int source, int recvtag, MPI_Comm comm, MPI_Request* out,
                              NativeFunction&& call_native) {
  return run_isendrecv("MPI_Isendrecv_replace", End{buf, count, type, dest, sendtag},
                       End{buf, count, type, source, recvtag}, true, comm, out, call_native);
}

template <class NativeFunction>
int message_Probe(int source, int tag, MPI_Comm comm, MPI_Status* status,
                  NativeFunction&& call_native) {
  return run_probe("MPI_Probe", source, tag, comm, nullptr, status, call_native);
}

template <class NativeFunction>
int message_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status,
                   NativeFunction&& call_native) {
  return run_iprobe("MPI_Iprobe", source, tag, comm, flag, nullptr, status, call_native);
}

template <class NativeFunction>
int message_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status,
                   NativeFunction&& call_native) {
  p2p::Arrival* arrival = nullptr;
  const int code = run_probe("MPI_Mprobe", source, tag, comm, &arrival, status, call_native);
  return arrival == nullptr ? code : hand_out_message("MPI_Mprobe", comm, arrival, message);
}

template <class NativeFunction>
int message_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                    MPI_Status* status, NativeFunction&& call_native) {
  p2p::Arrival* arrival = nullptr;
  const int code =
      run_iprobe("MPI_Improbe", source, tag, comm, flag, &arrival, status, call_native);
  return arrival == nullptr ? code : hand_out_message("MPI_Improbe", comm, arrival, message);
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

#include "mpi/generated/message_handlers.inc"

}  // namespace

void set_status(MPI_Status* status, int source, int tag, std::size_t bytes,
                bool cancelled) noexcept {
  set_count(status, bytes, cancelled);
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
}

void wait_for_message(Request& request) noexcept {
  state.messages->wait(*request.transfer);
  if (request.sending != nullptr) state.messages->wait(*request.sending);
}

Status settle_message(Request& request) noexcept {
  const Receipt& receipt = request.transfer->receipt();
  Status unpacks;
  if (request.receives && !request.settled && !receipt.cancelled)
    unpacks = request.in.unpack(std::min(receipt.bytes, request.in.size()));
  request.settled = true;
  if (!unpacks.ok() && receipt.status.ok()) return unpacks;
  if (request.sending != nullptr && receipt.status.ok()) return request.sending->receipt().status;
  return receipt.status;
}

Status start_message(Request& request) noexcept {
  request.settled = false;
  TUTTI_TRY(request.out.pack());
  const std::size_t bytes = request.receives ? request.in.size() : request.out.size();
  return counted(request.call, way_of(bytes), bytes,
                 [&] { return state.messages->restart(*request.transfer); });
}

void release_message(Request& request) noexcept {
  if (request.transfer != nullptr && !request.transfer->active() && request.started)
    static_cast<void>(settle_message(request).ok());  // freed without anybody waiting for it
  if (request.message != nullptr) state.messages->discard(request.message);
  state.messages->release(request.transfer);
  if (request.sending != nullptr) state.messages->release(request.sending);
  request.transfer = request.sending = nullptr;
  request.message = nullptr;
  request.in.clear();
  request.out.clear();
  request.receives = request.nobody = request.settled = false;
}

void describe_message(const Request& request, MPI_Status* status) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  const Receipt& receipt = request.transfer->receipt();
  if (request.nobody) {
    set_nobody(status);
  } else if (request.receives && !receipt.cancelled) {
    set_received(status, receipt);
  } else {
    set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, receipt.cancelled);
  }
}

void describe_sent(MPI_Status* status) noexcept {
  if (status != MPI_STATUS_IGNORE) set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
}

namespace {

/// The communicator of the program's processes that nobody else communicates on.
MPI_Comm meeting_place() noexcept {
  return split_off() && !state.report ? world_handle : state.report_comm;
}

/// A barrier of the MPI's, beside which messages move on.
class Barrier final : public p2p::Meeting {
 public:
  bool meet() noexcept override {
    MPI_Request request = MPI_REQUEST_NULL;
    if (native.Ibarrier(meeting_place(), &request) != MPI_SUCCESS) return false;
    int over = 0;
    for (std::uint32_t round = 0;; ++round) {
      if (native.Test(&request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (over) return true;
      state.job->relax(round);
    }
  }
};

}  // namespace

void finish_buffered(const Comm& comm) noexcept {
  if (comm.messages) state.messages->finish_sending(comm.team);
}

void conclude_messages() noexcept {
  if (state.messages == nullptr) return;
  Barrier barrier;
  state.messages->conclude(barrier);
}

void install_messages(void** handlers) noexcept {
  int* limit = nullptr;
  int found = 0;
  if (native.Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found) == MPI_SUCCESS && found)
    largest_tag = *limit;
  install_message_handlers(handlers);
}

}  // namespace tutti::mpi
