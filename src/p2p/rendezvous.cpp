// The three rendezvous protocols of RNDV-2006, and a fourth for memory that cannot be exposed.
//
//   RDMA Write                       RDMA Read (with interrupt)          in parts
//   sender          receiver         sender          receiver            sender         receiver
//     | --- RTS -------> |             | -- RTS, key ---> | (*)            | --- RTS ------> |
//     | <-- CTS, key --- |             |                  |                | <-- CTS ------- |
//     | === data ======> |             | <=== read ====== |                | --- part -----> | ...
//     | --- FIN -------> |             | <-- FIN -------- |                | --- part -----> |
//
// (*) with interrupt, this wakes the receiver's progress thread, which then reads while both sides
// compute.
#include <algorithm>
#include <cstring>

#include "p2p/messages.hpp"

namespace tutti::p2p {
namespace {

/// Within a node a copy takes the processor, so others get their turn now and then.
constexpr std::size_t kPart = std::size_t{1} << 20;

std::size_t part_of(const Peer& peer, std::size_t rest) noexcept {
  return peer.mapped != nullptr ? std::min(kPart, rest) : rest;
}

bool cannot_reach(const Status& status) noexcept {
  return status.code == Code::not_permitted || status.code == Code::unsupported;
}

}  // namespace

// ---- control packets
// ---------------------------------------------------------------------------------

void Messages::start_rendezvous(Transfer& send, Peer& peer) noexcept {
  if (const Status status = identify(send); !status.ok()) return complete(send, status);
  peer.add_open(send);
  send.open_ = true;
  Protocol protocol = options_.protocol;
  if (protocol == Protocol::write) {
    ++counts_.write;
  } else if (fabric_.expose(send.buffer_, send.bytes_, &send.region_).ok()) {
    send.exposed_ = true;
    ++counts_.read;
  } else {
    protocol = Protocol::pipelined;
  }
  Header header = header_of(send, PacketKind::request_to_send, static_cast<std::uint8_t>(protocol));
  header.payload = send.exposed_ ? sizeof(Key) : 0;
  post(peer, header, &send.region_.key);
  if (send.exposed_ && peer.mapped == nullptr) fabric_.attend();
}

void Messages::finish(Peer& peer, std::uint32_t transfer, Status status) noexcept {
  Header header{};
  header.transfer = transfer;
  header.kind = PacketKind::finished;
  header.detail = static_cast<std::uint8_t>(status.code);
  post(peer, header, nullptr);
  if (peer.accepted()) peer.tell_credits();
}

/// From now on the receive, which may have been one from anybody, waits for the peer.
void Messages::depend(Transfer& receive, Peer& peer) noexcept {
  if (receive.wild_) {
    receive.context_->wild.remove(receive);
    receive.context_->members.background = receive.context_->wild.empty();
    receive.wild_ = false;
  }
  if (receive.open_) return;
  receive.peer_ = &peer;
  receive.open_ = true;
  peer.add_open(receive);
}

void Messages::accept_rendezvous(Transfer& receive, Peer& peer, const Header& header,
                                 const Key& key) noexcept {
  describe(header, receive);
  depend(receive, peer);
  if (!peer.lost.ok()) return complete(receive, peer.lost);
  const auto protocol = static_cast<Protocol>(header.detail);
  if (protocol == Protocol::read || protocol == Protocol::read_interrupt) {
    return run(receive, read(receive, peer, header.transfer, key));
  }
  clear(receive, peer, header.transfer, protocol == Protocol::write);
}

/// Tells the sender to go on: to write to the receive's buffer, or to send the data in parts.
void Messages::clear(Transfer& receive, Peer& peer, std::uint32_t sender, bool direct) noexcept {
  if (const Status status = identify(receive); !status.ok()) {
    finish(peer, sender, status);
    return complete(receive, status);
  }
  Clearance clearance{receive.id_, 0, receive.wanted_, {}};
  if (direct && receive.wanted_ != 0 &&
      fabric_.expose(receive.buffer_, receive.wanted_, &receive.region_).ok()) {
    receive.exposed_ = true;
    clearance.direct = 1;
    clearance.key = receive.region_.key;
  } else {
    receive.streaming_ = true;
    ++peer.streams;
  }
  Header header{};
  header.transfer = sender;
  header.payload = sizeof clearance;
  header.kind = PacketKind::clear_to_send;
  header.detail =
      static_cast<std::uint8_t>(clearance.direct != 0 ? Protocol::write : Protocol::pipelined);
  post(peer, header, &clearance);
}

void Messages::handle_clearance(Transfer& send, Peer& peer, const Clearance& clearance) noexcept {
  if (send.running_) return;
  if (clearance.bytes > send.bytes_) {
    complete(send, Status{Code::corrupt, peer.rank, "more is wanted than there is"});
  } else if (clearance.bytes == 0) {
    finish(peer, clearance.transfer, Status::success());
    complete(send, Status::success());
  } else if (clearance.direct != 0) {
    run(send, write(send, peer, clearance));
  } else {
    run(send, send_parts(send, peer, clearance));
  }
}

void Messages::handle_part(Transfer& receive, Peer& peer, const Packet& packet) noexcept {
  const std::size_t offset = packet.header.bytes;
  const std::size_t bytes = packet.header.payload;
  if (offset > receive.wanted_ || bytes > receive.wanted_ - offset) {
    return complete(receive,
                    Status{Code::corrupt, peer.rank, "a part lies outside of its message"});
  }
  fabric_.spend(Work::copy, bytes);
  std::memcpy(receive.buffer_ + offset, packet.payload, bytes);
  receive.moved_ += bytes;
  if (receive.moved_ == receive.wanted_) complete(receive, Status::success());
}

// ---- data
// ------------------------------------------------------------------------------------------

void Messages::run(Transfer& transfer, Task task) noexcept {
  transfer.running_ = true;
  transfer.task_ = std::move(task);
  if (transfer.task_.done())
    return complete(transfer, transfer.task_.result());  // no memory for its frame
  transfer.task_.start();
}

/// RDMA Read: the receiver fetches the data and tells the sender that it is done.
Task Messages::read(Transfer& receive, Peer& peer, std::uint32_t sender, Key key) noexcept {
  Remote source;
  Status status =
      receive.wanted_ == 0 ? Status::success() : fabric_.attach(peer.rank, key, &source);
  Completion& completion = receive.completion_;
  for (std::size_t offset = 0; status.ok() && offset < receive.wanted_;) {
    const std::size_t bytes = part_of(peer, receive.wanted_ - offset);
    status = fabric_.get(source, offset, receive.buffer_ + offset, bytes, &completion);
    if (!status.ok()) break;
    status = co_await outcome(engine_.completed(completion, peer.members, peer.rank));
    offset += bytes;
    if (offset < receive.wanted_) co_await engine_.later();
  }
  if (cannot_reach(status)) {
    receive.running_ = false;
    clear(receive, peer, sender, false);
    co_return status;
  }
  finish(peer, sender, status);
  complete(receive, status);
  co_return status;
}

/// RDMA Write: the sender stores the data, and its FIN comes after all of it.
Task Messages::write(Transfer& send, Peer& peer, Clearance clearance) noexcept {
  Remote target;
  Status status = fabric_.attach(peer.rank, clearance.key, &target);
  Completion& completion = send.completion_;
  for (std::size_t offset = 0; status.ok() && offset < clearance.bytes;) {
    const std::size_t bytes = part_of(peer, clearance.bytes - offset);
    status = fabric_.put(target, offset, send.buffer_ + offset, bytes, nullptr, &completion);
    if (!status.ok()) break;
    status = co_await outcome(engine_.completed(completion, peer.members, peer.rank));
    offset += bytes;
    if (offset < clearance.bytes) co_await engine_.later();
  }
  if (cannot_reach(status)) {
    co_await send_parts(send, peer, clearance);
    co_return Status::success();
  }
  finish(peer, clearance.transfer, status);
  complete(send, status);
  co_return status;
}

/// Through the byte ring, as there is room.
Task Messages::send_parts(Transfer& send, Peer& peer, Clearance clearance) noexcept {
  ++counts_.pipelined;
  Header header{};
  header.transfer = clearance.transfer;
  header.kind = PacketKind::data;
  header.detail = static_cast<std::uint8_t>(Protocol::pipelined);
  Status status;
  for (std::size_t offset = 0; status.ok() && offset < clearance.bytes;) {
    const std::size_t bytes = std::min<std::size_t>(kMostPayload, clearance.bytes - offset);
    if (!peer.queue.empty()) {
      const std::uint64_t emptied = peer.emptied.load(std::memory_order_relaxed);
      status =
          co_await outcome(engine_.reached(peer.emptied, emptied + 1, peer.members, peer.rank));
      continue;
    }
    if (!peer.room(bytes)) {
      status = co_await outcome(
          engine_.reached(peer.credit->consumed, peer.consumed + 1, peer.members, peer.rank));
      continue;
    }
    header.bytes = offset;
    header.payload = static_cast<std::uint16_t>(bytes);
    status = peer.write(header, send.buffer_ + offset, interrupts(header));
    offset += bytes;
  }
  if (!status.ok()) finish(peer, clearance.transfer, status);
  complete(send, status);
  co_return status;
}

}  // namespace tutti::p2p
