// MPI_Sendrecv and its kin: a send and a receive in one call.
#include "mpi/plugin/message_calls.hpp"

namespace tutti::mpi {
namespace {

/// Of a call with two ends: neither, one of them or both are with somebody.
template <class NativeFunction>
int run_sendrecv(const char* call, const End& out, const End& in, bool copied, MPI_Comm handle,
                 MPI_Status* status, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data sent{}, received{};
  const Reason sends = read_send(comm, out, &sent);
  const Reason receives = read_receive(comm, in, &received);
  if (sends > Reason::nobody || receives > Reason::nobody)
    return pass_on(call, comm, std::max(sends, receives), call_native);
  if (is_idle(sends, out) && is_idle(receives, in)) {
    set_nobody(status);
    return done_at_once(call);
  }
  if (comm == nullptr || (sends == Reason::nobody && receives == Reason::nobody))
    return pass(call, in_report(sends, handle), call_native);
  if (sends == Reason::nobody) return receive_blocking(call, comm, in, received, status);
  if (receives == Reason::nobody) {
    const int code = send_blocking(call, SendMode::standard, comm, out, sent);
    set_nobody(status);
    return code;
  }
  Packed packed_out, packed_in;
  if (!packed_out.set(sent, copied) || !packed_in.set(received))
    return raise(*comm, call, kNoMemory);
  if (const Status packs = packed_out.pack(); !packs.ok()) return raise(*comm, call, packs);
  const Receipt receipt = counted(call, way_of(sent.bytes), sent.bytes, [&] {
    return state.messages->exchange(*comm->group, packed_out.bytes(), packed_out.size(), out.peer,
                                    out.tag, packed_in.bytes(), packed_in.size(),
                                    source_of(in.peer), tag_of(in.tag));
  });
  const Status unpacks = packed_in.unpack(std::min(receipt.bytes, packed_in.size()));
  set_received(status, receipt);
  const Status outcome = receipt.status.ok() ? unpacks : receipt.status;
  return outcome.ok() ? MPI_SUCCESS : raise(*comm, call, outcome);
}

template <class NativeFunction>
int run_isendrecv(const char* call, const End& out, const End& in, bool copied, MPI_Comm handle,
                  MPI_Request* made, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data sent{}, received{};
  const Reason sends = read_send(comm, out, &sent);
  const Reason receives = read_receive(comm, in, &received);
  if (sends > Reason::nobody || receives > Reason::nobody)
    return pass_on(call, comm, std::max(sends, receives), call_native);
  if (is_idle(sends, out) && is_idle(receives, in))
    return hand_out_idle(allocate_request(), call, *comm, made);
  if (comm == nullptr || (sends == Reason::nobody && receives == Reason::nobody))
    return pass(call, in_report(sends, handle), call_native);
  Request* const fresh = allocate_request();
  return hand_out(fresh, call, *comm, false, sent.bytes, made, [&](Request& request) {
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
    return state.messages->start_send(*comm->group, request.out.bytes(), request.out.size(),
                                      out.peer, out.tag, SendMode::standard,
                                      request.receives ? &request.sending : &request.transfer);
  });
}

// ---- entry points: message_NAME(the arguments of MPI_NAME, the MPI's own call)

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

#include "mpi/generated/message_exchanges.inc"

}  // namespace

void install_message_exchanges(void** handlers) noexcept { install_handlers(handlers); }

}  // namespace tutti::mpi
