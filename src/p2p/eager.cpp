#include "p2p/eager.hpp"

#include <utility>

#include "team/copy_small.hpp"

namespace tutti::p2p {
namespace {

/// Small messages, which are most, are not asked about.
bool rings(const Outbox& outbox, const Header& header) noexcept {
  return header.bytes > kMostPayload && outbox.interrupts(header);
}

}  // namespace

// ---- leaving

bool Eager::suits(const Transfer& send, Peer& peer) const noexcept {
  // What goes in several packets leaves at once or not at all: copies of it would cost more than
  // the receiver's answer.
  return send.bytes <= std::min(options_.eager, kMostPayload) ||
         (send.bytes <= most(&peer) && peer.clear_way() && peer.room_for_message(send.bytes));
}

bool Eager::send_now(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                     std::optional<Stores> stores) noexcept {
  if (tag < 0 || destination < 0 || destination >= group.size()) return false;
  Peer* const peer = peers_.known(group.job_rank(destination));
  if (peer == nullptr || peer->rank == fabric_.rank() || !peer->lost.ok()) return false;
  if (bytes > most(peer) || !peer->affords(bytes, options_.allowance)) return false;
  if (!peer->clear_way()) return false;
  Header header = envelope(contexts_.of(group), group, bytes, tag, PacketKind::eager);
  if (peer->suits_slot(bytes)) {
    header.payload = static_cast<std::uint16_t>(bytes);
    peer->write_in_slot(header, data);
  } else if (!peer->room_for_message(bytes)) {
    return false;
  } else {
    const Status status = peer->write_message(header, data, rings(outbox_, header), stores);
    if (!status.ok()) {
      peers_.fail(*peer, status);
      return false;
    }
  }
  peer->answers.note_sent(bytes);
  peer->charged += cost_of(bytes);
  ++counts_.eager;
  return true;
}

void Eager::send(Transfer& send, Peer& peer) noexcept {
  const bool synchronous = send.mode == SendMode::synchronous;
  if (synchronous) {
    if (const Status status = transfers_.ids().give(send); !status.ok())
      return transfers_.complete(send, status);
  }
  Header header = envelope(send, synchronous ? PacketKind::eager_synchronous : PacketKind::eager);
  peer.answers.note_sent(send.bytes);
  peer.charged += cost_of(send.bytes);
  ++counts_.eager;
  if (synchronous) peer.add_open(send);
  if (peer.clear_way() && peer.room_for_message(send.bytes)) {
    const Status status = peer.write_message(header, send.buffer, rings(outbox_, header));
    if (!status.ok()) peers_.fail(peer, status);
  } else {
    header.payload = static_cast<std::uint16_t>(send.bytes);
    outbox_.enqueue(peer, header, send.buffer);
  }
  if (!synchronous) transfers_.complete(send, peer.lost);
}

// ---- arriving

void Eager::receive(Transfer& receive, Peer& peer, const Header& header,
                    const void* payload) noexcept {
  receive.match(header);
  peer.answers.note_matched(header.bytes);
  if (Episodes::suits(header.bytes)) peer.crossings.receive(false, transfers_.episodes());
  const std::size_t bytes = std::min<std::size_t>(receive.wanted, header.payload);
  fabric_.spend(Work::copy, bytes);
  copy_small(receive.buffer, payload, bytes);
  if (header.payload == header.bytes) return received(receive, peer, header);
  Transfers::depend(receive, peer);
  peer.train = {header, header.payload, &receive, nullptr};
}

void Eager::receive_more(Peer& peer, const Packet& packet) noexcept {
  Train& train = peer.train;
  const std::size_t offset = packet.header.bytes;
  const std::size_t bytes = packet.header.payload;
  if (offset != train.moved || bytes > train.header.bytes - offset) {
    return peers_.fail(peer, Status{Code::corrupt, peer.rank, "a part of a message is missing"});
  }
  train.moved += bytes;
  fabric_.spend(Work::copy, bytes);
  if (train.arrival != nullptr) copy_small(train.arrival->payload + offset, packet.payload, bytes);
  if (Transfer* receive = train.receive; receive != nullptr && offset < receive->wanted)
    copy_small(receive->buffer + offset, packet.payload, std::min(bytes, receive->wanted - offset));
  if (!train.complete()) return;
  train.arrival = nullptr;
  if (Transfer* receive = std::exchange(train.receive, nullptr))
    received(*receive, peer, train.header);
}

void Eager::take_kept(Arrival* arrival, void* buffer) noexcept {
  const Header header = arrival->header;
  counts_.held_bytes -= header.bytes;
  fabric_.spend(Work::copy, header.bytes);
  copy_small(buffer, arrival->payload, header.bytes);
  Peer& peer = *arrival->from;
  peer.answers.note_matched(header.bytes);
  if (Episodes::suits(header.bytes)) peer.crossings.receive(false, transfers_.episodes());
  FramePool::release(arrival);
  delivered(peer, header);
}

/// What is kept goes to the receive, and what of it has not come yet will. Gives the arrival up.
/// True when nothing is missing.
bool Eager::hand_over(Transfer& receive, Arrival* arrival) noexcept {
  Train& train = arrival->from->train;
  const bool partial = train.arrival == arrival;
  const std::size_t there = std::min(receive.wanted, partial ? train.moved : arrival->kept);
  counts_.held_bytes -= arrival->kept;
  fabric_.spend(Work::copy, there);
  copy_small(receive.buffer, arrival->payload, there);
  FramePool::release(arrival);
  if (!partial) return true;
  train.arrival = nullptr;
  train.receive = &receive;
  return false;
}

void Eager::receive_kept(Transfer& receive, Arrival* arrival) noexcept {
  const Header header = arrival->header;
  Peer& peer = *arrival->from;
  receive.match(header);
  peer.answers.note_matched(header.bytes);
  if (Episodes::suits(header.bytes)) peer.crossings.receive(false, transfers_.episodes());
  if (hand_over(receive, arrival)) return received(receive, peer, header);
  Transfers::depend(receive, peer);
  if (!peer.lost.ok()) transfers_.complete(receive, peer.lost);
}

void Eager::expect_head(Transfer& receive, Peer& peer, const Header& header,
                        std::size_t head) noexcept {
  receive.lacks_head = true;
  peer.train = {header, 0, &receive, nullptr};
  peer.train.header.bytes = head;
}

void Eager::take_head(Transfer& receive, Arrival* arrival) noexcept {
  Peer& peer = *arrival->from;
  Header header = arrival->header;
  receive.match(header);
  header.bytes = arrival->kept;
  if (hand_over(receive, arrival)) return delivered(peer, header);
  receive.lacks_head = true;
}

/// All data of the message is where it was wanted: its sender may send as much again.
void Eager::delivered(Peer& peer, const Header& header) noexcept {
  if (peer.rank == fabric_.rank()) {
    peer.delivered += cost_of(header.bytes);
  } else {
    peer.deliver(header.bytes);
    if (header.kind == PacketKind::eager_synchronous)
      outbox_.finish(peer, header.transfer, Status::success());
  }
}

void Eager::received(Transfer& receive, Peer& peer, const Header& header) noexcept {
  delivered(peer, header);
  if (header.kind == PacketKind::request_to_send) return transfers_.complete_head(receive);
  transfers_.complete(receive, Status::success());
}

}  // namespace tutti::p2p
