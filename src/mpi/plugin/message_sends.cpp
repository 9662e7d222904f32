// MPI_Send and its kin: blocking, non-blocking and persistent.
#include "mpi/plugin/message_calls.hpp"

namespace tutti::mpi {

int send_blocking(const char* call, SendMode mode, const Comm* comm, const End& end,
                  const Data& data) {
  Packed packed;
  if (!packed.set(data)) return raise(const_cast<Comm&>(*comm), call, kNoMemory);
  if (const Status packs = packed.pack(); !packs.ok())
    return raise(const_cast<Comm&>(*comm), call, packs);
  const Status status = counted(call, way_of(data.bytes), data.bytes, [&] {
    return state.messages->send(*comm->group, packed.bytes(), packed.size(), end.peer, end.tag,
                                mode);
  });
  if (status.ok()) [[likely]]
    return MPI_SUCCESS;
  return raise(const_cast<Comm&>(*comm), call, status);
}

Status make_send(Request& request, SendMode mode, const End& end, const Data& data,
                 bool copied) noexcept {
  p2p::Transfer** place = request.receives ? &request.sending : &request.transfer;
  if (!request.receives) request.peer = end.peer, request.tag = end.tag;
  if (!request.out.set(data, copied)) return kNoMemory;
  Group& group = *request.comm->group;
  if (request.persistent) {
    return state.messages->prepare_send(group, request.out.bytes(), request.out.size(), end.peer,
                                        end.tag, mode, place);
  }
  TUTTI_TRY(request.out.pack());
  return state.messages->start_send(group, request.out.bytes(), request.out.size(), end.peer,
                                    end.tag, mode, place);
}

namespace {

template <class NativeFunction>
int run_send(const char* call, SendMode mode, const End& end, MPI_Comm handle,
             NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_send(comm, end, &data);
  if (reason == Reason::none) [[likely]]
    return send_blocking(call, mode, comm, end, data);
  if (is_idle(reason, end)) return done_at_once(call);
  return pass_on(call, comm, in_report(reason, handle), call_native);
}

/// The request of a message that needs none of its own; nullptr when it has not left at once.
inline Request* send_at_once(const char* call, const Comm& comm, const End& end,
                             const Data& data) noexcept {
  Request* const request = sent_request();
  if (request == nullptr) return nullptr;
  const double begin = state.report ? now() : 0;
  if (!state.messages->send_now(*comm.group, data.user, data.bytes, end.peer, end.tag))
    return nullptr;
  if (state.report) [[unlikely]]
    count_taken(call, "eager", data.bytes, now() - begin);
  return request;
}

template <class NativeFunction>
int run_isend(const char* call, SendMode mode, bool persistent, const End& end, MPI_Comm handle,
              MPI_Request* out, NativeFunction&& call_native) {
  Comm* comm = find_messages(handle);
  Data data;
  const Reason reason = read_send(comm, end, &data);
  if (!persistent && is_idle(reason, end)) {
    const Request* const sent = sent_request();
    if (sent == nullptr) return raise(*comm, call, kNoMemory);
    *out = handle_of(*sent);
    return done_at_once(call);
  }
  if (reason != Reason::none) return pass_on(call, comm, in_report(reason, handle), call_native);
  // A message that has left has no buffer to be watched.
  const bool watched = state.settings.check == Check::calls;
  if (!persistent && mode != SendMode::synchronous && data.dense() && !watched) {
    if (const Request* const sent = send_at_once(call, *comm, end, data)) {
      *out = handle_of(*sent);
      return MPI_SUCCESS;
    }
  }
  return hand_out(allocate_request(), call, *comm, persistent, data.bytes, out,
                  [&](Request& request) { return make_send(request, mode, end, data, false); });
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

#include "mpi/generated/message_sends.inc"

}  // namespace

void install_message_sends(void** handlers) noexcept { install_handlers(handlers); }

}  // namespace tutti::mpi
