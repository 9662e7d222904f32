// Packets: how they leave, and what an arriving one does.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/copy.hpp"
#include "base/log.hpp"
#include "p2p/messages.hpp"
#include "team/copy_small.hpp"

namespace tutti::p2p {

namespace {

Header envelope(const Context& context, const Team& team, std::size_t bytes, int tag,
                PacketKind kind) noexcept {
  Header header{};
  header.context[0] = context.id[0];
  header.context[1] = context.id[1];
  header.source = static_cast<std::uint32_t>(team.rank());
  header.tag = tag;
  header.bytes = bytes;
  header.kind = kind;
  return header;
}

/// True when nothing that was sent before waits for its turn.
bool clear_way(const Peer& peer) noexcept { return peer.queue.empty() && peer.connected(); }

/// Lengths that this side would use as they are.
bool makes_sense(const Header& header) noexcept {
  switch (header.kind) {
    case PacketKind::eager:
    case PacketKind::eager_synchronous:
      return header.payload <= header.bytes && header.bytes <= kMostEager;
    case PacketKind::clear_to_send:
      return header.payload == sizeof(Clearance);
    default:
      return header.kind <= PacketKind::last;
  }
}

}  // namespace

Header Messages::header_of(const Transfer& send, PacketKind kind,
                           std::uint8_t detail) const noexcept {
  Header header = envelope(*send.context_, *send.team_, send.bytes_, send.tag_, kind);
  header.transfer = send.id_;
  header.detail = detail;
  return header;
}

/// Only what begins a transfer, and what one in parts cannot go on without, wakes a progress
/// thread.
bool Messages::interrupts(const Header& header) const noexcept {
  if (options_.protocol != Protocol::read_interrupt) return false;
  const auto protocol = static_cast<Protocol>(header.detail);
  switch (header.kind) {
    case PacketKind::request_to_send:
      return protocol == Protocol::read_interrupt || protocol == Protocol::pipelined;
    case PacketKind::clear_to_send:
      return protocol == Protocol::pipelined;
    case PacketKind::data:
      return true;
    default:
      return false;
  }
}

// ---- leaving
// ---------------------------------------------------------------------------------------

/// The payload is copied: what is small leaves the sender's hands at once, within the allowance of
/// the peer.
void Messages::enqueue(Peer& peer, const Header& header, const void* payload) noexcept {
  // Called only now, to answer it: what it hears first is that nothing else comes.
  if (last_said_ && !peer.called()) say_last_to(peer);
  void* memory = frames().allocate(sizeof(Outgoing) + header.payload);
  if (memory == nullptr)
    return fail_peer(peer, Status::error(Code::no_memory, "no memory for a message"));
  auto* packet = new (memory) Outgoing();
  packet->header = header;
  fabric_.spend(Work::copy, header.payload);
  copy_small(packet + 1, payload, header.payload);
  peer.queue.push_back(*packet);
  ++queued_;
  ++counts_.queued;
  if (peer.flushing.done()) {
    peer.flushing = flush(peer);
    peer.flushing.start();
  }
}

/// A control packet, with at most sizeof(Clearance) bytes of data.
void Messages::post(Peer& peer, const Header& header, const void* payload) noexcept {
  if (!peer.lost.ok()) return;
  if (!clear_way(peer) || !peer.room(header.payload)) return enqueue(peer, header, payload);
  if (const Status status = peer.write(header, payload, interrupts(header)); !status.ok())
    fail_peer(peer, status);
}

/// What is not out of the ordinary in any way: written into the receiver's memory and forgotten.
bool Messages::leave(Team& team, const void* data, std::size_t bytes, int destination,
                     int tag) noexcept {
  if (tag < 0 || peers_.empty()) return false;
  if (destination < 0 || destination >= team.size()) return false;
  Peer* const peer = peers_[static_cast<std::size_t>(team.job_rank(destination))].get();
  if (peer == nullptr || peer->rank == fabric_.rank() || !peer->lost.ok()) return false;
  if (bytes > eager_to(peer) || !peer->affords(bytes, options_.allowance)) return false;
  if (!clear_way(*peer) || !peer->room_for_message(bytes)) return false;
  const Header header = envelope(context_of(team), team, bytes, tag, PacketKind::eager);
  if (const Status status = peer->write_message(header, data); !status.ok()) {
    fail_peer(*peer, status);
    return false;
  }
  peer->charged += cost_of(bytes);
  ++counts_.eager;
  return true;
}

void Messages::send_eager(Transfer& send, Peer& peer) noexcept {
  const bool synchronous = send.mode_ == SendMode::synchronous;
  if (synchronous) {
    if (const Status status = identify(send); !status.ok()) return complete(send, status);
  }
  Header header =
      header_of(send, synchronous ? PacketKind::eager_synchronous : PacketKind::eager, 0);
  peer.charged += cost_of(send.bytes_);
  ++counts_.eager;
  if (synchronous) {
    peer.add_open(send);
    send.open_ = true;
  }
  if (clear_way(peer) && peer.room_for_message(send.bytes_)) {
    if (const Status status = peer.write_message(header, send.buffer_); !status.ok())
      fail_peer(peer, status);
  } else {
    header.payload = static_cast<std::uint16_t>(send.bytes_);
    enqueue(peer, header, send.buffer_);
  }
  if (!synchronous) complete(send, peer.lost);
}

// ---- arriving
// --------------------------------------------------------------------------------------

/// True when there was something. What cannot be a packet stays where it is, and nothing behind it
/// can be found.
bool Messages::drain(Peer& peer) noexcept {
  bool any = false;
  while (peer.arrived()) {
    Packet packet{};
    if (!peer.front(&packet) || !makes_sense(packet.header)) {
      fail_peer(peer, Status{Code::corrupt, peer.rank, "a damaged packet"});
      return any;
    }
    handle(peer, packet);
    peer.pop();
    any = true;
  }
  return any;
}

void Messages::handle(Peer& peer, const Packet& packet) noexcept {
  const Header& header = packet.header;
  if (header.kind <= PacketKind::request_to_send) return handle_envelope(peer, packet);
  if (header.kind == PacketKind::more) return handle_more(peer, packet);
  if (header.kind == PacketKind::withdraw) return handle_withdraw(peer, header);
  if (header.kind == PacketKind::last) {
    peer.heard_last = true;
    return;
  }
  Transfer* transfer = identified(header.transfer);
  // One that has been given up here (its deadline has passed) may still be spoken of.
  if (transfer == nullptr || transfer->peer_ != &peer) return;
  switch (header.kind) {
    case PacketKind::clear_to_send: {
      Clearance clearance;
      std::memcpy(&clearance, packet.payload, sizeof clearance);
      return handle_clearance(*transfer, peer, clearance);
    }
    case PacketKind::data:
      return handle_part(*transfer, peer, packet);
    case PacketKind::withdrawn:
      transfer->receipt_.cancelled = true;
      return complete(*transfer, Status::success());
    default:
      break;
  }
  const auto code = static_cast<Code>(header.detail);
  complete(*transfer,
           code == Code::ok ? Status::success() : Status{code, peer.rank, "the other side failed"});
}

void Messages::handle_envelope(Peer& peer, const Packet& packet) noexcept {
  const Header& header = packet.header;
  Context& context = context_of(header.context);
  fabric_.spend(Work::match, 0);
  Transfer* receive = context.matcher.take_posted(static_cast<int>(header.source), header.tag);
  if (receive == nullptr) {
    ++counts_.unexpected;
    if (keep(context, peer, header, packet.payload) == nullptr) {
      fail_peer(peer, Status::error(Code::no_memory, "no memory for an unexpected message"));
    }
  } else if (header.kind == PacketKind::request_to_send) {
    Key key;
    if (header.payload == sizeof key) std::memcpy(&key, packet.payload, sizeof key);
    accept_rendezvous(*receive, peer, header, key);
  } else {
    receive_eager(*receive, peer, header, packet.payload);
  }
}

/// The sender cancels: possible until the message is matched.
void Messages::handle_withdraw(Peer& peer, const Header& header) noexcept {
  Matcher& matcher = context_of(header.context).matcher;
  Arrival* arrival = matcher.first_arrival();
  while (arrival != nullptr &&
         (arrival->from != &peer || arrival->header.transfer != header.transfer)) {
    arrival = arrival->in_context.next;
  }
  if (arrival == nullptr) return;  // matched: the transfer takes its course
  matcher.remove(*arrival);
  if (arrival->payload != nullptr) {  // all of it: what withdraws it came behind
    counts_.held_bytes -= arrival->header.bytes;
    peer.deliver(arrival->header.bytes);
  }
  FramePool::release(arrival);
  Header reply{};
  reply.transfer = header.transfer;
  reply.kind = PacketKind::withdrawn;
  post(peer, reply, nullptr);
}

/// Remembers a message that no receive waits for; with its data, unless `payload` is nullptr. More
/// data may follow.
Arrival* Messages::keep(Context& context, Peer& peer, const Header& header,
                        const void* payload) noexcept {
  const bool eager = header.kind != PacketKind::request_to_send && payload != nullptr;
  void* memory = frames().allocate(sizeof(Arrival) + (eager ? header.bytes : 0));
  if (memory == nullptr) return nullptr;
  auto* arrival = new (memory) Arrival();
  arrival->context = &context;
  arrival->from = &peer;
  arrival->header = header;
  if (eager) {
    arrival->payload = reinterpret_cast<std::byte*>(arrival + 1);
    fabric_.spend(Work::copy, header.payload);
    copy_small(arrival->payload, payload, header.payload);
    counts_.held_bytes += header.bytes;
    if (header.payload < header.bytes) peer.train = {header, header.payload, nullptr, arrival};
  } else if (header.payload == sizeof arrival->key && payload != nullptr) {
    std::memcpy(&arrival->key, payload, sizeof arrival->key);
  }
  context.matcher.add(*arrival);
  return arrival;
}

/// Forgets a message that nobody will receive any more.
void Messages::drop(Arrival* arrival) noexcept {
  Peer& peer = *arrival->from;
  const Header header = arrival->header;
  if (arrival->payload != nullptr) {
    counts_.held_bytes -= header.bytes;
    if (peer.rank != fabric_.rank()) peer.deliver(header.bytes);
  }
  if (peer.train.arrival == arrival) peer.train.arrival = nullptr;
  Transfer* const local = arrival->local;
  FramePool::release(arrival);
  if (local != nullptr)
    complete(*local, Status::error(Code::invalid_argument, "nobody has received the message"));
  if (peer.rank != fabric_.rank() && header.kind != PacketKind::eager) {
    finish(peer, header.transfer,
           Status::error(Code::invalid_argument, "the receiver has given up the team"));
  }
}

/// The envelope of the message that a receive has got, and how much of it fits.
void Messages::describe(const Header& header, Transfer& receive) noexcept {
  receive.receipt_.source = static_cast<int>(header.source);
  receive.receipt_.tag = header.tag;
  receive.receipt_.bytes = header.bytes;
  receive.wanted_ = std::min<std::size_t>(header.bytes, receive.bytes_);
  if (header.bytes > receive.bytes_) {
    receive.receipt_.status =
        Status::error(Code::truncated, "the message is longer than the buffer");
  }
}

void Messages::receive_eager(Transfer& receive, Peer& peer, const Header& header,
                             const void* payload) noexcept {
  describe(header, receive);
  const std::size_t bytes = std::min<std::size_t>(receive.wanted_, header.payload);
  fabric_.spend(Work::copy, bytes);
  copy_small(receive.buffer_, payload, bytes);
  if (header.payload == header.bytes) return received(receive, peer, header);
  depend(receive, peer);
  peer.train = {header, header.payload, &receive, nullptr};
}

/// All data of an eager message is where it was wanted.
void Messages::received(Transfer& receive, Peer& peer, const Header& header) noexcept {
  if (peer.rank == fabric_.rank()) {
    peer.delivered += cost_of(header.bytes);
  } else {
    peer.deliver(header.bytes);
    if (header.kind == PacketKind::eager_synchronous)
      finish(peer, header.transfer, Status::success());
  }
  complete(receive, Status::success());
}

/// The next part of the eager message before. That message may have been given up meanwhile.
void Messages::handle_more(Peer& peer, const Packet& packet) noexcept {
  Train& train = peer.train;
  const std::size_t offset = packet.header.bytes;
  const std::size_t bytes = packet.header.payload;
  if (offset != train.moved || bytes > train.header.bytes - offset) {
    return fail_peer(peer, Status{Code::corrupt, peer.rank, "a part of a message is missing"});
  }
  train.moved += bytes;
  fabric_.spend(Work::copy, bytes);
  if (train.arrival != nullptr) copy_small(train.arrival->payload + offset, packet.payload, bytes);
  if (Transfer* receive = train.receive; receive != nullptr && offset < receive->wanted_) {
    copy_small(receive->buffer_ + offset, packet.payload,
               std::min(bytes, receive->wanted_ - offset));
  }
  if (!train.complete()) return;
  train.arrival = nullptr;
  if (Transfer* receive = std::exchange(train.receive, nullptr))
    received(*receive, peer, train.header);
}

/// Gives a message that came earlier to the receive that takes it.
void Messages::consume(Arrival* arrival, Transfer& receive) noexcept {
  const Header header = arrival->header;
  Peer& peer = *arrival->from;
  if (Transfer* send = arrival->local) {
    FramePool::release(arrival);
    describe(header, receive);
    copy_bytes(receive.buffer_, send->buffer_, receive.wanted_);
    complete(receive, Status::success());
    return complete(*send, Status::success());
  }
  if (header.kind == PacketKind::request_to_send) {
    const Key key = arrival->key;
    FramePool::release(arrival);
    return accept_rendezvous(receive, peer, header, key);
  }
  counts_.held_bytes -= header.bytes;
  describe(header, receive);
  Train& train = peer.train;
  const bool partial = train.arrival == arrival;
  const std::size_t there = partial ? train.moved : header.bytes;
  fabric_.spend(Work::copy, std::min(receive.wanted_, there));
  copy_small(receive.buffer_, arrival->payload, std::min(receive.wanted_, there));
  FramePool::release(arrival);
  if (!partial) return received(receive, peer, header);
  train.arrival = nullptr;
  depend(receive, peer);
  if (peer.lost.ok()) {
    train.receive = &receive;
  } else {
    complete(receive, peer.lost);
  }
}

}  // namespace tutti::p2p
