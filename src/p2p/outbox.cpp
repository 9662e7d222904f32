#include "p2p/outbox.hpp"

#include <new>

#include "team/copy_small.hpp"

namespace tutti::p2p {

/// Only what begins a transfer, what one in parts cannot go on without, and the end of a train do.
bool Outbox::interrupts(const Header& header) const noexcept {
  if (options_.protocol != Protocol::read_interrupt) return false;
  const auto protocol = protocol_of(header);
  switch (header.kind) {
    case PacketKind::request_to_send:
      return protocol == Protocol::read_interrupt || protocol == Protocol::pipelined;
    case PacketKind::clear_to_send:
      return protocol == Protocol::pipelined;
    case PacketKind::data:
      return true;
    case PacketKind::eager:
    case PacketKind::eager_synchronous:
      return header.bytes > kMostPayload;  // a train
    default:
      return false;
  }
}

void Outbox::post(Peer& peer, const Header& header, const void* payload) noexcept {
  if (!peer.lost.ok()) return;
  if (!peer.clear_way() || !peer.room(header.payload)) return enqueue(peer, header, payload);
  write(peer, header, payload, interrupts(header));
}

void Outbox::write(Peer& peer, const Header& header, const void* payload,
                   bool interrupts) noexcept {
  if (const Status status = peer.write(header, payload, interrupts); !status.ok())
    peers_.fail(peer, status);
}

void Outbox::enqueue(Peer& peer, const Header& header, const void* payload) noexcept {
  // Called only now, to answer it: what it hears first is that nothing else comes.
  if (last_said_ && !peer.called()) say_last_to(peer);
  void* memory = engine_.frames().allocate(sizeof(Outgoing) + header.payload);
  if (memory == nullptr)
    return peers_.fail(peer, Status::error(Code::no_memory, "no memory for a message"));
  auto* packet = new (memory) Outgoing();
  packet->header = header;
  engine_.fabric().spend(Work::copy, header.payload);
  copy_small(packet + 1, payload, header.payload);
  peer.queue.push_back(*packet);
  backlog_.entered();
  ++counts_.queued;
  if (peer.flushing.done()) {
    peer.flushing = flush(peer);
    peer.flushing.start();
  }
}

/// Writes the packets of the queue as there is room for them.
Task Outbox::flush(Peer& peer) noexcept {
  if (!peer.called()) {
    if (const Status status = peer.call(); !status.ok()) {
      peers_.fail(peer, status);
      co_return status;
    }
  }
  if (!peer.connected()) {
    co_await engine_.reached(peer.answer(), 1, peer.members, peer.rank);
    if (const Status status = peer.connect(); !status.ok()) {
      peers_.fail(peer, status);
      co_return status;
    }
  }
  while (Outgoing* packet = peer.queue.first()) {
    if (!peer.room(packet->header.payload)) {
      co_await engine_.reached(peer.credit->consumed, peer.consumed + 1, peer.members, peer.rank);
      continue;
    }
    peer.queue.remove(*packet);
    const Status status = peer.write(packet->header, packet->payload(), interrupts(packet->header));
    backlog_.left(packet);
    if (!status.ok()) {
      peers_.fail(peer, status);
      co_return status;
    }
  }
  peer.emptied.store(peer.emptied.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  co_return Status::success();
}

void Outbox::finish(Peer& peer, std::uint32_t transfer, Status status) noexcept {
  Header header{};
  header.transfer = transfer;
  header.kind = PacketKind::finished;
  header.detail = static_cast<std::uint8_t>(status.code);
  post(peer, header, nullptr);
  if (peer.accepted()) peer.send_credits();
}

bool Outbox::take_back(Peer& peer, const Transfer& send) noexcept {
  for (Outgoing* packet = peer.queue.first(); packet != nullptr;
       packet = peer.queue.next(*packet)) {
    if (packet->header.kind > PacketKind::request_to_send || packet->header.transfer != send.id)
      continue;
    if (packet->header.kind != PacketKind::request_to_send)
      peer.charged -= cost_of(packet->header.payload);
    peer.queue.remove(*packet);
    backlog_.left(packet);
    return true;
  }
  return false;
}

void Outbox::say_last() noexcept {
  last_said_ = true;
  for (const auto& peer : peers_.all()) {
    if (peer && peer->called()) say_last_to(*peer);
  }
}

void Outbox::say_last_to(Peer& peer) noexcept {
  if (peer.said_last || peer.rank == engine_.fabric().rank()) return;
  peer.said_last = true;
  Header last{};
  last.kind = PacketKind::last;
  post(peer, last, nullptr);
}

bool Outbox::all_has_left() const noexcept {
  for (const auto& peer : peers_.all()) {
    if (!peer || !peer->lost.ok() || !peer->called()) continue;
    if (!peer->queue.empty() || !peer->connected()) return false;
  }
  return true;
}

}  // namespace tutti::p2p
