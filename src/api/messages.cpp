// The C API of messages over the core's.
#include <memory>
#include <new>

#include "api/handles.hpp"
#include "team/team.hpp"

using tutti::Receipt;
using tutti::Status;
using tutti::api::code;
using tutti::p2p::Messages;

namespace {

static_assert(TUTTI_ANY_SOURCE == tutti::kAnySource && TUTTI_ANY_TAG == tutti::kAnyTag);

Messages& messages_of(const tutti_team& team) { return team.job->messages(); }

void give(const Receipt& from, tutti_receipt* to) {
  if (to != nullptr) *to = {from.source, from.tag, from.bytes};
}

/// A request around the transfer that `start(&transfer)` makes.
template <class Start>
tutti_status make_request(tutti_team* team, tutti_request** out, Start start) {
  if (team == nullptr || out == nullptr) return TUTTI_ERR_ARGUMENT;
  std::unique_ptr<tutti_request> request(new (std::nothrow) tutti_request{team->job});
  if (!request) return TUTTI_ERR_NO_MEMORY;
  const Status status = start(&request->transfer);
  if (!status.ok()) return code(status);
  *out = request.release();
  return TUTTI_OK;
}

}  // namespace

extern "C" {

tutti_status tutti_send(tutti_team* team, const void* data, size_t bytes, int destination,
                        int tag) {
  if (team == nullptr) return TUTTI_ERR_ARGUMENT;
  return code(messages_of(*team).send(*team->team, data, bytes, destination, tag));
}

tutti_status tutti_receive(tutti_team* team, void* buffer, size_t room, int source, int tag,
                           tutti_receipt* receipt) {
  if (team == nullptr) return TUTTI_ERR_ARGUMENT;
  const Receipt got = messages_of(*team).receive(*team->team, buffer, room, source, tag);
  give(got, receipt);
  return code(got.status);
}

tutti_status tutti_start_send(tutti_team* team, const void* data, size_t bytes, int destination,
                              int tag, tutti_request** out) {
  return make_request(team, out, [&](tutti::p2p::Transfer** transfer) {
    return messages_of(*team).start_send(*team->team, data, bytes, destination, tag,
                                         tutti::SendMode::standard, transfer);
  });
}

tutti_status tutti_start_receive(tutti_team* team, void* buffer, size_t room, int source, int tag,
                                 tutti_request** out) {
  return make_request(team, out, [&](tutti::p2p::Transfer** transfer) {
    return messages_of(*team).start_receive(*team->team, buffer, room, source, tag, transfer);
  });
}

tutti_status tutti_probe(tutti_team* team, int source, int tag, int* found,
                         tutti_receipt* receipt) {
  if (team == nullptr || found == nullptr) return TUTTI_ERR_ARGUMENT;
  Receipt there;
  *found = messages_of(*team).probe_now(*team->team, source, tag, &there) && there.status.ok();
  if (*found) give(there, receipt);
  return code(there.status);
}

tutti_status tutti_get_receipt(const tutti_request* request, tutti_receipt* receipt) {
  if (request == nullptr || receipt == nullptr || request->transfer == nullptr ||
      request->transfer->active()) {
    return TUTTI_ERR_ARGUMENT;
  }
  give(request->transfer->receipt(), receipt);
  return TUTTI_OK;
}

}  // extern "C"
