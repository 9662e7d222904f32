// What the entry points of point-to-point calls share: arguments, and how a call ends. The calls
// themselves are in message_sends.cpp, message_receives.cpp, message_exchanges.cpp and
// message_probes.cpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/message_status.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/packed.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

inline constexpr Status kNoMemory = Status::error(Code::no_memory, "no memory for a message");

// ---- arguments: why a call is not tutti's

extern int largest_tag;  // MPI_TAG_UB; written once, before the handlers are in place

inline Reason check_peer(const Comm& comm, int rank, int nobody) noexcept {
  if (rank >= 0 && rank < comm.size) [[likely]]
    return Reason::none;
  return rank == nobody ? Reason::nobody : Reason::arguments;
}

inline Reason check_send(const Comm* comm, int destination, int tag) noexcept {
  if (comm == nullptr) return Reason::communicator;
  if (tag < 0 || tag > largest_tag) return Reason::arguments;
  return check_peer(*comm, destination, MPI_PROC_NULL);
}

inline Reason check_receive(const Comm* comm, int source, int tag) noexcept {
  if (comm == nullptr) return Reason::communicator;
  if ((tag < 0 && tag != MPI_ANY_TAG) || tag > largest_tag) return Reason::arguments;
  if (source == MPI_ANY_SOURCE) return Reason::none;
  return check_peer(*comm, source, MPI_PROC_NULL);
}

inline int source_of(int source) noexcept { return source == MPI_ANY_SOURCE ? kAnySource : source; }
inline int tag_of(int tag) noexcept { return tag == MPI_ANY_TAG ? kAnyTag : tag; }

/// One end of a call: peer, tag and data, as the program gave them.
struct End {
  const void* buffer;
  MPI_Count count;
  MPI_Datatype type;
  int peer;
  int tag;
};

inline Reason read_send(const Comm* comm, const End& end, Data* data) noexcept {
  const Reason reason = check_send(comm, end.peer, end.tag);
  if (reason != Reason::none) return reason;
  return read_data(end.buffer, end.count, end.type, data);
}

inline Reason read_receive(const Comm* comm, const End& end, Data* data) noexcept {
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

/// True when the call is with MPI_PROC_NULL, and such that the MPI would find nothing wrong in it:
/// it is over at once (MPI 4.1, section 3.10).
inline bool is_idle(Reason reason, const End& end) noexcept {
  Data data;
  return reason == Reason::nobody &&
         read_data(end.buffer, end.count, end.type, &data) == Reason::none;
}

// ---- the report

/// Counts a call that had nothing to do.
inline int done_at_once(const char* call) noexcept {
  if (state.report) [[unlikely]]
    count_taken(call, "nobody", 0, 0);
  return MPI_SUCCESS;
}

inline const char* way_of(std::size_t bytes) noexcept {
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

// ---- blocking calls whose arguments are tutti's

int send_blocking(const char* call, SendMode mode, const Comm* comm, const End& end,
                  const Data& data);
int receive_blocking(const char* call, Comm* comm, const End& end, const Data& data,
                     MPI_Status* status);

// ---- non-blocking and persistent ones

/// Makes a new request one of a message on `comm`.
inline void dedicate(Request& request, const char* call, Comm& comm, bool persistent) noexcept {
  request.comm = &comm;
  request.call = call;
  request.persistent = persistent;
  retain(&comm);
}
/// Makes a new request (nullptr: no memory) one of a receive from MPI_PROC_NULL, which is over, and
/// gives it to the program.
int hand_out_idle(Request* request, const char* call, Comm& comm, MPI_Request* out);
/// Starts its send or receive, or prepares it where it is persistent.
Status make_send(Request& request, SendMode mode, const End& end, const Data& data,
                 bool copied) noexcept;
Status make_receive(Request& request, const End& end, const Data& data) noexcept;

/// Makes a message of a new request (nullptr: no memory) with `make(request)`, and gives it to the
/// program.
template <class Make>
int hand_out(Request* request, const char* call, Comm& comm, bool persistent, std::size_t bytes,
             MPI_Request* out, Make&& make) {
  if (request == nullptr) return raise(comm, call, kNoMemory);
  dedicate(*request, call, comm, persistent);
  const Status status = persistent
                            ? make(*request)
                            : counted(call, way_of(bytes), bytes, [&] { return make(*request); });
  if (!status.ok()) {
    free_request(request);
    return raise(comm, call, status);
  }
  request->started = !persistent;
  if (state.settings.check == Check::calls && !persistent) [[unlikely]]
    watch_buffers(*request);
  *out = handle_of(*request);
  return MPI_SUCCESS;
}

// ---- tables

void install_message_sends(void** handlers) noexcept;
void install_message_receives(void** handlers) noexcept;
void install_message_exchanges(void** handlers) noexcept;
void install_message_probes(void** handlers) noexcept;

}  // namespace tutti::mpi
