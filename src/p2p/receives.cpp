#include "p2p/receives.hpp"

#include "base/copy.hpp"
#include "team/copy_small.hpp"

namespace tutti::p2p {

// ---- at once

Peer* Receives::next_from(const Group& group, int source, int tag) const noexcept {
  if (source < 0 || source >= group.size()) return nullptr;
  Context* const context = Contexts::known(group);
  Peer* const peer = peers_.known(group.job_rank(source));
  if (context == nullptr || peer == nullptr || !peer->accepted() || !peer->lost.ok())
    return nullptr;
  Matcher& matcher = context->matcher;
  return matcher.expects(source) || matcher.find(source, tag) != nullptr ? nullptr : peer;
}

bool Receives::receive_now(Group& group, void* buffer, std::size_t room, int source, int tag,
                           Receipt* out) noexcept {
  Context* const context = Contexts::known(group);
  if (context == nullptr || source < kAnySource || source >= group.size() || tag < kAnyTag)
    return false;
  if (Arrival* const arrival = context->matcher.find(source, tag))
    return receive_kept(*arrival, buffer, room, out);
  Peer* const peer = next_from(group, source, tag);
  return peer != nullptr && peer->arrived() &&
         receive_front(*peer, *context, buffer, room, source, tag, out);
}

/// Posting is all there is to do for a small message of a peer that has been talked to and of whose
/// messages none is kept.
bool Receives::receive_or_post(Group& group, void* buffer, std::size_t room, int source, int tag,
                               Receipt* out, Transfer** posted) noexcept {
  Context* const context = Contexts::known(group);
  const bool named = context != nullptr && source >= 0 && source < group.size() && tag >= kAnyTag;
  Peer* const peer = named ? peers_.known(group.job_rank(source)) : nullptr;
  if (peer == nullptr || !peer->accepted() || !peer->lost.ok() || room > eager_.most(nullptr) ||
      (Episodes::suits(room) && rendezvous_.have_processors(*peer)) ||
      context->matcher.keeps(source))
    return receive_now(group, buffer, room, source, tag, out);
  if (peer->arrived() && !context->matcher.expects(source) &&
      receive_front(*peer, *context, buffer, room, source, tag, out))
    return true;
  Transfer* receive = nullptr;
  if (!transfers_.make(*context, Wish::receive(group, buffer, room, source, tag), &receive).ok())
    return false;
  transfers_.start(*receive);
  receive->peer = peer;
  peer->add_open(*receive);
  context->matcher.post(*receive);
  *posted = receive;
  return true;
}

bool Receives::receive_kept(Arrival& arrival, void* buffer, std::size_t room,
                            Receipt* out) noexcept {
  const Header& header = arrival.header;
  if (header.kind != PacketKind::eager || header.bytes > room || arrival.local != nullptr ||
      arrival.from->train.arrival == &arrival)
    return false;
  out->source = static_cast<int>(header.source);
  out->tag = header.tag;
  out->bytes = header.bytes;
  arrival.context->matcher.remove(arrival);
  eager_.take_kept(&arrival, buffer);
  return true;
}

bool Receives::receive_front(Peer& peer, const Context& context, void* buffer, std::size_t room,
                             int source, int tag, Receipt* out) noexcept {
  Packet packet;
  if (!peer.train.complete() || !peer.front(&packet)) return false;
  const Header& header = packet.header;
  if (header.kind != PacketKind::eager || header.bytes != header.payload || header.bytes > room ||
      header.context[0] != context.id[0] || header.context[1] != context.id[1] ||
      header.source != static_cast<std::uint32_t>(source) || (tag != kAnyTag && tag != header.tag))
    return false;
  fabric_.spend(Work::match, 0);
  fabric_.spend(Work::copy, header.bytes);
  copy_small(buffer, packet.payload, header.bytes);
  out->source = source;
  out->tag = header.tag;
  out->bytes = header.bytes;
  peer.pop(packet);
  peer.deliver(header.bytes);
  return true;
}

// ---- as they come

void Receives::begin(Transfer& receive, bool watched) noexcept {
  transfers_.start(receive);
  receive.peer = nullptr;
  // What a lost peer has sent is taken in, so this comes before the matching.
  peers_.take_rest();
  Peer* peer = nullptr;
  Status status;
  if (receive.rank != kAnySource)
    status = peers_.find(receive.group->job_rank(receive.rank), &peer);
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
  if (!receive.active()) return;
  if (!probes && Episodes::suits(receive.bytes) && receive.peer != nullptr &&
      rendezvous_.have_processors(*receive.peer))
    transfers_.cross(receive);
  const bool may_wait = receive.crosses && receive.peer->crossings.used();
  if (watched && (may_wait || eager_.large(receive))) transfers_.watch(receive);
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
  const Announcement said{arrival->key, arrival->kept};
  if (arrival->payload != nullptr) {
    eager_.take_head(receive, arrival);
  } else {
    FramePool::release(arrival);
  }
  rendezvous_.accept(receive, peer, header, said);
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
