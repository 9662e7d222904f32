// Messages of communicators whose messages are tutti's, besides the calls themselves
// (message_calls.hpp): their requests and their end. All of such a communicator's messages are
// tutti's; all others are the MPI's, and so is whatever has wrong arguments.
#include "mpi/plugin/messages.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include "mpi/plugin/meeting.hpp"
#include "mpi/plugin/message_calls.hpp"
#include "mpi/plugin/record.hpp"

namespace tutti::mpi {

int largest_tag = INT_MAX;

// ---- requests

void wait_for_message(Request& request) noexcept {
  if (request.transfer->active()) note_message_wait(request, request.receives);
  if (request.sending != nullptr) state.messages->expect(*request.sending);
  state.messages->wait(*request.transfer);
  if (request.sending != nullptr) state.messages->wait(*request.sending);
}

Status settle_packed(Request& request) noexcept {
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
  if (request.in_place) {
    state.messages->release(std::exchange(request.transfer, nullptr));
    request.receives = request.in_place = false;
    return;
  }
  if (request.started && request.transfer != nullptr && !request.transfer->active())
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

void describe_at_once(const Request& request, MPI_Status* status) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  if (request.sent) {
    set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
  } else {
    set_received(status, request.found);
  }
}

int hand_out_idle(Request* request, const char* call, Comm& comm, MPI_Request* out) {
  if (request == nullptr) return raise(comm, call, kNoMemory);
  request->found.source = MPI_PROC_NULL;
  request->found.tag = MPI_ANY_TAG;
  request->found.bytes = 0;
  request->at_once = request->started = true;
  *out = handle_of(*request);
  return done_at_once(call);
}

// ---- the end

namespace {

/// Messages move on beside it.
class Barrier final : public p2p::Meeting {
 public:
  bool meet() noexcept override { return mpi::meet(); }
};

}  // namespace

void finish_buffered(const Comm& comm) noexcept {
  if (comm.group) state.messages->finish_sending(comm.group.get());
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
  install_message_sends(handlers);
  install_message_receives(handlers);
  install_message_exchanges(handlers);
  install_message_probes(handlers);
}

}  // namespace tutti::mpi
