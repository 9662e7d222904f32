// Requests of messages: what completion (Wait, Test, ...) needs of them. What the entry points of
// sends, receives and probes share is in message_calls.hpp.
#pragma once

#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

/// Waits until the message of a started request is over.
void wait_for_message(Request& request) noexcept;
/// The program will not go on before it is over; for calls that wait for several.
inline void expect_message(Request& request) noexcept {
  state.messages->expect(*request.transfer);
  if (request.sending != nullptr) state.messages->expect(*request.sending);
}
/// Once it is over: data have come to the user's memory when this returns. The outcome.
Status settle_packed(Request& request) noexcept;
inline Status settle_message(Request& request) noexcept {
  return request.in_place ? request.transfer->receipt().status : settle_packed(request);
}
/// Starts a persistent one.
Status start_message(Request& request) noexcept;
/// Gives up what a request has in the core.
void release_message(Request& request) noexcept;
/// What MPI_Wait says of it, without MPI_ERROR. `status` may be MPI_STATUS_IGNORE.
void describe_message(const Request& request, MPI_Status* status) noexcept;
/// The same of one that was over when its call returned.
void describe_at_once(const Request& request, MPI_Status* status) noexcept;

/// Waits until what was sent on `comm` with MPI_Bsend has left.
void finish_buffered(const Comm& comm) noexcept;
/// Inside MPI_Finalize, on all ranks: what is under way comes to its end, and no rank leaves
/// before.
void conclude_messages() noexcept;

void install_messages(void** handlers) noexcept;

}  // namespace tutti::mpi
