// Requests of tutti's: handles that the program cannot tell from the MPI's, one compare for us.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/core.hpp"
#include "mpi/plugin/check_nodes.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/packed.hpp"
#include "mpi/plugin/plan.hpp"
#include "p2p/transfer.hpp"

namespace tutti::mpi {

struct Pending;

/// A non-blocking or persistent collective or message, or a message that a matched probe has taken
/// (whose MPI_Message is a handle of the same kind). Owned by the program through its handle, and
/// used by one thread at a time, as MPI demands.
///
/// What every request needs comes first: programs have hundreds, and touch all of them in turn.
struct alignas(kCacheLine) Request {
  Operation* operation = nullptr;     // of a collective
  p2p::Transfer* transfer = nullptr;  // of a message
  p2p::Transfer* sending = nullptr;   // of MPI_Isendrecv: the send; `transfer` is then the receive
  p2p::Arrival* message = nullptr;    // that a matched probe has taken
  Comm* comm = nullptr;
  Pending* pending = nullptr;  // owned: its buffers, while they are watched (TUTTI_CHECK=calls)
  bool persistent = false;
  bool started = false;   // between start and completion as the program has seen it
  bool receives = false;  // transfer is a receive
  bool in_place = false;  // the only one, into the user's memory: `in` and `out` are not set
  bool nobody = false;    // the status says that it is one from MPI_PROC_NULL
  bool settled = false;   // what has been received, or the result, is in the user's memory
  bool at_once = false;   // a message that was over when its call returned; nothing else is set
  bool sent = false;      // at_once, and the one that stands for all that have been sent so
  std::uint32_t index = 0;
  std::uint32_t next_free = 0;
  const char* call = nullptr;  // "MPI_Iallreduce"
  int peer = 0, tag = 0;       // of a message, as the program has named them
  Receipt found;               // at_once: what has been received
  std::uint64_t number = 0;    // of a collective on the communicator, for the record
  Packed in, out;              // what is received and sent
  Plan plan;
};

inline constexpr std::uint32_t kMostRequests = std::uint32_t{1} << 22;
/// Handles are numbers in a row, or addresses in one reserved range. The memory there holds the
/// Fortran index of the handle in every word, because Open MPI's Fortran layer reads it from inside
/// the handle.
inline constexpr bool kHandlesAreNumbers = std::is_integral_v<MPI_Request>;
inline constexpr std::size_t kHandleBytes = kHandlesAreNumbers ? 1 : 256;
extern std::uintptr_t handle_range;  // 0 until the first request; written once under a lock
inline std::uintptr_t first_handle() noexcept {
  return kHandlesAreNumbers ? Abi::kFirstRequest : handle_range;
}
inline bool is_own(MPI_Request request) noexcept {
  return key(request) - first_handle() < kMostRequests * kHandleBytes && first_handle() != 0;
}

/// A request without operation, or nullptr when there is no more memory. Thread-safe.
Request* allocate_request() noexcept;
/// The request of every message that had left when its call returned: started and complete for
/// ever. Never nullptr after it was asked for once with success. Thread-safe.
Request* sent_request() noexcept;
/// Gives a request back; drops its operation and its communicator. Thread-safe.
void free_request(Request* request) noexcept;
/// Requests by index, in chunks that never move. A chunk's pointer is written once, under a lock,
/// and read by threads that hold a handle of that chunk, which they got after it was written.
inline constexpr std::uint32_t kRequestChunk = 1024;
extern std::atomic<Request*> request_chunks[kMostRequests / kRequestChunk];
inline Request* request_at(std::uint32_t index) noexcept {
  return &request_chunks[index / kRequestChunk].load(
      std::memory_order_acquire)[index % kRequestChunk];
}
/// The request of an own handle. Thread-safe.
inline Request* request_of(MPI_Request handle) noexcept {
  return request_at(static_cast<std::uint32_t>((key(handle) - first_handle()) / kHandleBytes));
}
MPI_Request handle_of(const Request& request) noexcept;

/// Fortran's number of an own handle, and back (nullptr when `index` is none of ours).
int fortran_index(const Request& request) noexcept;
Request* request_of_fortran(int index) noexcept;

/// True when the operation is over or was never started.
inline bool is_complete(const Request& request) noexcept {
  if (!request.started || request.at_once) return true;
  if (request.operation != nullptr) {
    if (active(*request.operation)) return false;
    return !comparing() || !being_compared(*request.comm, request.number);
  }
  return !request.transfer->active() && (request.sending == nullptr || !request.sending->active());
}

/// Lets a request go whose operation may still run (MPI_Request_free).
void abandon(Request* request) noexcept;
/// Waits until nothing of tutti's is in flight on `comm` (all communicators when null).
void drain(const Comm* comm) noexcept;
/// Frees what the program left behind. The last step before the communicators go.
void destroy_requests() noexcept;

void install_completion(void** handlers) noexcept;
void install_status_queries(void** handlers) noexcept;
void install_starts(void** handlers) noexcept;
void install_collectives(void** handlers) noexcept;
/// Calls that are the MPI's own: where nobody wants to know of them, they cost nothing.
void install_passed(void** handlers) noexcept;

}  // namespace tutti::mpi
