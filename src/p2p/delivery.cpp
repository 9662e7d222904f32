#include "p2p/delivery.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::p2p {
namespace {

/// Lengths that this side would use as they are.
bool makes_sense(const Header& header) noexcept {
  switch (header.kind) {
    case PacketKind::eager:
    case PacketKind::eager_synchronous:
      return header.payload <= header.bytes && header.bytes <= kMostEager;
    case PacketKind::request_to_send:
      return header.payload == 0 || header.payload == sizeof(Key) ||
             header.payload == sizeof(Announcement);
    case PacketKind::clear_to_send:
      return header.payload == sizeof(Clearance);
    default:
      return header.kind <= PacketKind::last;
  }
}

/// A head goes ahead of what is read, and of nothing else.
bool makes_sense(const Header& header, const Announcement& said) noexcept {
  if (said.head == 0) return true;
  const Protocol protocol = protocol_of(header);
  return said.head <= std::min<std::uint64_t>(header.bytes, kMostEager) &&
         (protocol == Protocol::read || protocol == Protocol::read_interrupt);
}

}  // namespace

bool Delivery::poll_all() noexcept {
  bool any = false;
  const auto& inbound = peers_.inbound();
  for (std::size_t i = 0; i < inbound.size(); ++i) {
    if (!inbound[i]->arrived()) continue;
    any = drain(*inbound[i]) || any;
  }
  return any;
}

bool Delivery::drain(Peer& peer) noexcept {
  bool any = false;
  while (peer.arrived()) {
    Packet packet;
    if (!peer.front(&packet) || !makes_sense(packet.header)) {
      peers_.fail(peer, Status{Code::corrupt, peer.rank, "a damaged packet"});
      return any;
    }
    handle(peer, packet);
    peer.pop(packet);
    any = true;
    // What comes next nobody has asked for yet. Whoever waits may be about to, and until then it
    // would have to be kept.
    if (peer.open.empty()) break;
  }
  return any;
}

void Delivery::handle(Peer& peer, const Packet& packet) noexcept {
  const Header& header = packet.header;
  if (header.kind <= PacketKind::request_to_send) return handle_envelope(peer, packet);
  if (header.kind == PacketKind::more) return eager_.receive_more(peer, packet);
  if (header.kind == PacketKind::withdraw)
    return unexpected_.withdraw(contexts_.of(header.context), peer, header);
  if (header.kind == PacketKind::waits)
    return rendezvous_.sender_waits(contexts_.find(header.context), peer, header);
  if (header.kind == PacketKind::last) {
    peer.heard_last = true;
    return;
  }
  Transfer* transfer = transfers_.ids().find(header.transfer);
  // One that has been given up here (its deadline has passed) may still be spoken of.
  if (transfer != nullptr && transfer->peer == &peer) handle_answer(*transfer, peer, packet);
}

void Delivery::handle_envelope(Peer& peer, const Packet& packet) noexcept {
  const Header& header = packet.header;
  Announcement said{};
  if (header.kind == PacketKind::request_to_send)
    std::memcpy(&said, packet.payload, header.payload);
  if (!peer.train.complete() || !makes_sense(header, said))
    return peers_.fail(peer, Status{Code::corrupt, peer.rank, "a damaged envelope"});
  Context& context = contexts_.of(header.context);
  fabric_.spend(Work::match, 0);
  Transfer* receive = context.matcher.take_posted(static_cast<int>(header.source), header.tag);
  const bool small = header.kind == PacketKind::eager && header.payload == header.bytes;
  if (receive != nullptr && small) [[likely]]
    return eager_.receive_small(*receive, peer, packet);
  if (receive == nullptr) {
    ++counts_.unexpected;
    if (unexpected_.keep(context, peer, header, packet.payload) == nullptr) {
      peers_.fail(peer, Status::error(Code::no_memory, "no memory for an unexpected message"));
    }
  } else if (header.kind == PacketKind::request_to_send) {
    if (said.head != 0) eager_.expect_head(*receive, peer, header, said.head);
    rendezvous_.accept(*receive, peer, header, said);
  } else {
    eager_.receive(*receive, peer, header, packet.payload);
  }
}

/// What the other side says about a transfer that both know.
void Delivery::handle_answer(Transfer& transfer, Peer& peer, const Packet& packet) noexcept {
  switch (packet.header.kind) {
    case PacketKind::clear_to_send: {
      Clearance clearance;
      std::memcpy(&clearance, packet.payload, sizeof clearance);
      return rendezvous_.cleared(transfer, peer, clearance, packet.header.bytes);
    }
    case PacketKind::data:
      return rendezvous_.receive_part(transfer, peer, packet);
    case PacketKind::withdrawn:
      return transfers_.complete_cancelled(transfer);
    default:
      break;
  }
  const auto code = static_cast<Code>(packet.header.detail);
  const Status status =
      code == Code::ok ? Status::success() : Status{code, peer.rank, "the other side failed"};
  if (transfer.halved) return rendezvous_.half_over(transfer, peer, status);
  transfers_.complete(transfer, status);
}

}  // namespace tutti::p2p
