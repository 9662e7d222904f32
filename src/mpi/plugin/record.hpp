// What this rank says of itself to whoever looks (record/record.h): its communicators, and what the
// preload does not know of a call.
#pragma once

#include "coll/call.hpp"
#include "mpi/plugin/args.hpp"
#include "mpi/plugin/call_site.hpp"
#include "mpi/plugin/check_calls.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

/// Begins the record, once the job is there and the world is known, and the watch for stalls.
/// Called by all ranks of the program's world. Thread of MPI_Init.
void begin_record(const tutti_preload& preload);
/// MPI_Finalize has begun.
void note_finalize() noexcept;
/// Ends it; the memory under it stays mapped, since a thread may be on its way out of a call, but
/// it is nobody's any more. Thread of MPI_Finalize.
void end_record() noexcept;
/// Of this node; none without a record.
const Records& node_records() noexcept;
/// That of one of the node's ranks, which only that rank writes.
inline tutti_record& record_of(const Records& node, std::int32_t local) noexcept {
  return *reinterpret_cast<tutti_record*>(node.base + node.bytes * static_cast<std::size_t>(local));
}
/// In a child of fork(), which is no rank.
void leave_record() noexcept;

/// Gives a communicator a row when its first collective begins, if there is one left: what it is
/// called, and who its members are. Local. Asked again it does nothing.
void add_row(Comm& comm) noexcept;
/// Gives it back.
void remove_row(Comm& comm) noexcept;

/// The thread is in a collective, or waits for it. Nothing of one on a communicator without a row.
[[gnu::always_inline]] inline void note_detail(tutti_lane* lane, const tutti_past* past) noexcept {
  TUTTI_SET(lane->detail, reinterpret_cast<std::uintptr_t>(past) -
                              reinterpret_cast<std::uintptr_t>(state.record));
  __atomic_store_n(&lane->detail_count, lane->count, __ATOMIC_RELEASE);
}

template <class Args>
[[gnu::always_inline]] inline std::uint64_t with_root(const Args& args,
                                                      std::uint64_t what) noexcept {
  std::int32_t root = TUTTI_NO_RANK;
  if constexpr (requires { args.root; }) root = args.root;
  return what | std::uint64_t{static_cast<std::uint32_t>(root)} << 32;
}

[[gnu::always_inline]] inline void write_past(tutti_past* past, std::uint64_t number,
                                              std::uint64_t site, std::uint64_t bytes,
                                              std::uint64_t what) noexcept {
  TUTTI_SET(past->number, 0);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  TUTTI_SET(past->site, site);
  TUTTI_SET(past->bytes, bytes);
  TUTTI_SET(past->what, what);
  __atomic_store_n(&past->number, number, __ATOMIC_RELEASE);
}

[[gnu::always_inline]] inline tutti_past* past_of(tutti_comm_row* row, bool nonblocking,
                                                  std::uint64_t number) noexcept {
  return nonblocking ? &row->made[number % TUTTI_RECORD_MADE]
                     : &row->past[number % TUTTI_RECORD_PAST];
}

/// The next blocking collective of a communicator begins.
template <class Args>
[[gnu::always_inline]] inline void note_call(const Args& args, Comm& comm, std::uint64_t bytes,
                                             std::uint64_t what) noexcept {
  tutti_lane* const lane = lane_here();
  tutti_comm_row* const row = comm.row;
  const std::uint64_t number = row->number + 1;
  TUTTI_SET(row->number, number);
  tutti_past* const past = past_of(row, false, number);
  write_past(past, number, lane->site, bytes, with_root(args, what));
  note_detail(lane, past);
}

/// The same of one that is met for the first time: what it moves is known later, or not.
template <class Args>
void note_begin(const Args& args, Comm& comm) noexcept {
  if (comm.row->id == 0) [[unlikely]]
    add_row(comm);
  note_call(args, comm, TUTTI_BYTES_LATER, what_of(Args::kColl, nullptr));
}

/// All that is known of it. Compares it with what the others have passed, where that is wanted.
template <class Args>
void note_known(const Args& args, Comm& comm, std::uint64_t bytes,
                const Reduction* reduction) noexcept {
  const std::uint64_t number = comm.row->number;
  tutti_past* const past = past_of(comm.row, false, number);
  tutti_forget_event(lane_here());
  write_past(past, number, past->site, bytes, with_root(args, what_of(Args::kColl, reduction)));
  if (state.settings.check == Check::calls) {
    check_call(comm, false, number);
    tutti_forget_event(lane_here());  // of waiting for that
  }
}

/// What it was run by, once that is known.
inline void note_route(const Comm& comm, const Route& route) noexcept {
  tutti_past* const past = past_of(comm.row, false, comm.row->number);
  TUTTI_SET(past->what, with_algorithm(past->what, route));
  tutti_forget_event(lane_here());
}

/// What this rank moves in a collective of which each rank knows but its own counts.
inline void note_bytes(const Comm& comm, std::uint64_t bytes) noexcept {
  TUTTI_SET(past_of(comm.row, false, comm.row->number)->bytes, bytes);
}

/// A non-blocking or persistent one is made.
template <class Args>
void note_made(const Args& args, Comm& comm, Request* request) noexcept {
  if (comm.row->id == 0) add_row(comm);
  request->number = comm.row->started + 1;
  TUTTI_SET(comm.row->started, request->number);
  const Call& call = request->plan.call;
  const bool checked = state.settings.check == Check::calls;
  // The preload does not note such calls, which do not block, and finding out takes long.
  const auto site = checked ? reinterpret_cast<std::uint64_t>(call_site()) : 0;
  write_past(past_of(comm.row, true, request->number), request->number, site, call.bytes,
             with_root(args, what_of(Args::kColl, call.reduction)));
  if (checked) check_call(comm, true, request->number);
}

/// The thread waits for a message of a request, if it is in a call.
void note_message_wait(const Request& request, bool receives) noexcept;
/// The thread waits for a request.
inline void note_wait(const Request& request) noexcept {
  if (request.operation == nullptr) return;
  tutti_lane* const lane = lane_here();
  tutti_forget_event(lane);  // of another request, for which the same call has waited before
  note_detail(lane, past_of(request.comm->row, true, request.number));
}

}  // namespace tutti::mpi
