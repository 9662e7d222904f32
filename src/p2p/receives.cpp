#include "p2p/receives.hpp"

#include "base/copy.hpp"

namespace tutti::p2p {

void Receives::begin(Transfer& receive, bool watched) noexcept {
  transfers_.start(receive);
  receive.peer = nullptr;
  // Talking to a peer for the first time takes in what it has sent already, so this comes before
  // the matching.
  Peer* peer = nullptr;
  Status status;
  if (receive.rank != kAnySource) status = peers_.find(receive.team->job_rank(receive.rank), &peer);
  if (!status.ok()) return transfers_.complete(receive, status);
  Matcher& matcher = receive.context->matcher;
  const bool probes = receive.kind == Transfer::Kind::probe;
  Arrival* const arrival = probes ? nullptr : matcher.find(receive.rank, receive.tag);
  if (arrival != nullptr) {
    matcher.remove(*arrival);
    consume(arrival, receive);
  } else if (receive.rank == kAnySource) {
    peers_.set_in_use();  // somebody may call, though this rank has called nobody
    status = contexts_.wait_for_any(receive);
    if (!status.ok()) return transfers_.complete(receive, status);
    if (!probes) matcher.post(receive);
  } else {
    if (!peer->lost.ok()) return transfers_.complete(receive, peer->lost);
    receive.peer = peer;
    peer->add_open(receive);
    if (!probes) matcher.post(receive);
  }
  if (watched && eager_.large(receive) && receive.active()) transfers_.watch(receive);
}

void Receives::begin_with(Arrival* arrival, Transfer& receive) noexcept {
  transfers_.start(receive);
  consume(arrival, receive);
}

void Receives::cancel(Transfer& receive) noexcept {
  if (receive.posted) transfers_.complete_cancelled(receive);
}

void Receives::consume(Arrival* arrival, Transfer& receive) noexcept {
  if (Transfer* send = arrival->local) return consume_local(arrival, *send, receive);
  if (arrival->header.kind != PacketKind::request_to_send)
    return eager_.receive_kept(receive, arrival);
  const Header header = arrival->header;
  Peer& peer = *arrival->from;
  const Key key = arrival->key;
  FramePool::release(arrival);
  rendezvous_.accept(receive, peer, header, key);
}

/// A message to oneself that is still where it was sent from.
void Receives::consume_local(Arrival* arrival, Transfer& send, Transfer& receive) noexcept {
  receive.match(arrival->header);
  FramePool::release(arrival);
  copy_bytes(receive.buffer, send.buffer, receive.wanted);
  transfers_.complete(receive, Status::success());
  transfers_.complete(send, Status::success());
}

}  // namespace tutti::p2p
