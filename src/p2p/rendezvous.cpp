#include "p2p/rendezvous.hpp"

#include <algorithm>

#include "base/copy.hpp"

namespace tutti::p2p {
namespace {

/// Within a node a copy takes the processor, so others get their turn now and then.
constexpr std::size_t kPart = std::size_t{1} << 20;
/// And where the sender may offer its help, the receiver looks so often: a system call of 1 us for
/// 20 to 30 us of copying.
constexpr std::size_t kPartAlone = std::size_t{256} << 10;
/// The kernel looks up pages.
constexpr std::size_t kPage = 4096;

/// Where the half begins that the sender writes.
std::size_t half_of(std::size_t bytes) noexcept { return bytes / 2 / kPage * kPage; }

std::size_t part_of(const Peer& peer, std::size_t rest, std::size_t most = kPart) noexcept {
  return peer.mapped != nullptr ? std::min(most, rest) : rest;
}

/// Of several messages at once the program uses none before the last has come. What they bring
/// together is more than the own cache holds: it is not worth fetching what is to be overwritten.
bool past_caches(const Peer& peer) noexcept {
  constexpr std::size_t kUsual = std::size_t{1} << 20;  // where the system does not say
  const std::size_t own_cache = peer.site.fabric.traits().core_cache;
  return peer.streams > 1 && peer.stream_bytes > (own_cache > 0 ? own_cache : kUsual);
}

/// What a processor can reach, such as the memory of a device, the kernel may not, either.
bool cannot_reach(const Status& status, const Peer& peer) noexcept {
  return status.code == Code::not_permitted || status.code == Code::unsupported ||
         (status.code == Code::invalid_argument && peer.mapped != nullptr);
}

/// Its sender has something to read, too (Crossings).
bool sender_reads(const Transfer& receive) noexcept {
  return receive.by_kernel && !receive.sender_waits;
}

}  // namespace

// ---- control packets

void Rendezvous::start(Transfer& send, Peer& peer) noexcept {
  if (const Status status = transfers_.ids().give(send); !status.ok())
    return transfers_.complete(send, status);
  peer.add_open(send);
  peer.answers.note_sent(send.bytes);
  Protocol protocol = options_.protocol;
  if (protocol == Protocol::write) {
    ++counts_.write;
  } else if (fabric_.expose(send.buffer, send.bytes, &send.region).ok()) {
    send.exposed = true;
    ++counts_.read;
  } else {
    protocol = Protocol::pipelined;
  }
  auto detail = static_cast<std::uint8_t>(protocol);
  if (send.by_kernel) detail |= kByKernel;
  if (send.waited && !(send.crosses && send.by_kernel)) detail |= kSenderWaits;
  Header header = envelope(send, PacketKind::request_to_send, detail);
  const Announcement said{send.region.key, head_of(send, peer)};
  header.payload = !send.exposed ? 0 : said.head != 0 ? sizeof said : sizeof said.key;
  outbox_.post(peer, header, &said);
  if (said.head != 0 && peer.lost.ok()) send_head(send, peer, said.head);
  if (send.exposed && peer.mapped == nullptr) fabric_.expect_reads();
}

/// As much as would have gone eagerly by itself, if all of it may leave now. Where the caller does
/// not wait, two copies of it would cost more than the time that nobody waits for.
std::size_t Rendezvous::head_of(const Transfer& send, Peer& peer) const noexcept {
  if (peer.mapped != nullptr || !peer.trains() || !send.waited || !send.exposed) return 0;
  const std::size_t head =
      std::min({options_.eager, most_eager(peer.ring_there), send.bytes}) / kMostPayload *
      kMostPayload;
  const bool leaves = head != 0 && peer.clear_way() && peer.affords(head, options_.allowance) &&
                      peer.room_for_message(head + kMostPayload);  // with the announcement
  return leaves ? head : 0;
}

void Rendezvous::send_head(const Transfer& send, Peer& peer, std::size_t head) noexcept {
  ++counts_.heads;
  peer.charged += cost_of(head);
  Header header = envelope(send, PacketKind::more);
  header.payload = kMostPayload;
  for (header.bytes = 0; header.bytes < head && peer.lost.ok(); header.bytes += kMostPayload) {
    const bool last = header.bytes + kMostPayload == head;
    outbox_.write(peer, header, send.buffer + header.bytes,
                  last && options_.protocol == Protocol::read_interrupt);
  }
}

void Rendezvous::accept(Transfer& receive, Peer& peer, const Header& header,
                        const Announcement& said) noexcept {
  receive.match(header);
  peer.answers.note_matched(header.bytes);
  Transfers::depend(receive, peer);
  if (!peer.lost.ok()) return transfers_.complete(receive, peer.lost);
  const Protocol protocol = protocol_of(header);
  const bool reads = protocol == Protocol::read || protocol == Protocol::read_interrupt;
  receive.sender = header.transfer;
  receive.sender_waits = (header.detail & kSenderWaits) != 0;
  receive.by_kernel = (header.detail & kByKernel) != 0;
  if (Episodes::suits(header.bytes))
    peer.crossings.receive(sender_reads(receive), transfers_.episodes());
  if (reads && !(receive.sender_waits && may_both_copy(receive, peer))) {
    const std::size_t begin = std::min<std::size_t>(said.head, receive.wanted);
    return transfers_.run(receive, read(receive, peer, said.key, begin));
  }
  clear(receive, peer, header.transfer, protocol == Protocol::write);
}

/// On a node, where both ends wait for the message inside and have a processor each, both copy, in
/// user space; by cross-memory attach one would do it alone, in the kernel. That is for those who
/// compute meanwhile. True where nothing is missing but the sender's wait.
bool Rendezvous::may_both_copy(const Transfer& receive, const Peer& peer) const noexcept {
  return receive.waited && !receive.by_kernel && have_processors(peer);
}
bool Rendezvous::have_processors(const Peer& peer) const noexcept {
  return options_.protocol == Protocol::read_interrupt && peer.mapped != nullptr &&
         !engine_.policy().yield && !fabric_.traits().virtual_time;
}

/// The kernel is to copy, both wait inside, and so each may do one half. That the memory can be
/// reached is known: who finds out by a half must not ask for all of it. A receive that is given up
/// at a deadline may not be written to any more, and its sender cannot be told in time.
bool Rendezvous::may_halve(const Transfer& receive, const Peer& peer) const noexcept {
  return receive.by_kernel && receive.sender_waits && receive.waited &&
         receive.wanted >= 2 * kPage && peer.readable && have_processors(peer) &&
         engine_.policy().deadline_ns == 0;
}

/// Lets the sender write the second half. Where the part ends that this rank reads.
std::size_t Rendezvous::offer_half(Transfer& receive, Peer& peer) noexcept {
  if (!may_halve(receive, peer) || !transfers_.ids().give(receive).ok() ||
      !fabric_.expose(receive.buffer, receive.wanted, &receive.region).ok())
    return receive.wanted;
  receive.exposed = receive.halved = true;
  const std::size_t end = half_of(receive.wanted);
  receive.moved = end;  // where the sender must send its half in parts
  post_clearance(peer, receive.sender, {receive.id, 1, receive.wanted, receive.region.key}, end);
  ++counts_.halved;
  return end;
}

void Rendezvous::half_over(Transfer& transfer, Peer& peer, Status status) noexcept {
  if (!transfer.refused) return transfers_.complete_half(transfer, false, status);
  if (status.ok()) return want_half_in_parts(transfer, peer);
  outbox_.finish(peer, transfer.sender, status);  // it waits for this side's half
  transfers_.complete(transfer, status);
}

/// The kernel has refused this rank's half. The sender's one is over: it does one thing at a time.
void Rendezvous::want_half_in_parts(Transfer& receive, Peer& peer) noexcept {
  receive.halved = receive.refused = false;
  receive.wanted = half_of(receive.wanted);
  clear(receive, peer, receive.sender, false, 0);
}

void Rendezvous::wait_for(Transfer& send) noexcept {
  // Nobody has said anything of it yet, or it moves already.
  if (send.id == 0 || !send.exposed || send.running || send.by_kernel ||
      send.peer->mapped == nullptr)
    return;
  Header header = envelope(send, PacketKind::waits);
  header.payload = 0;
  outbox_.post(*send.peer, header, nullptr);
}

void Rendezvous::sender_waits(Context* context, Peer& peer, const Header& header) noexcept {
  for (Transfer* transfer = peer.open.first(); transfer != nullptr;
       transfer = peer.open.next(*transfer)) {
    if (transfer->kind == Transfer::Kind::receive && transfer->sender == header.transfer) {
      transfer->sender_waits = true;
      return;
    }
  }
  Arrival* const arrival =
      context == nullptr ? nullptr : context->matcher.announced(peer, header.transfer);
  if (arrival != nullptr) arrival->header.detail |= kSenderWaits;
}

/// Tells the sender to go on: to write to the receive's buffer, or to send the data in parts.
void Rendezvous::clear(Transfer& receive, Peer& peer, std::uint32_t sender, bool direct,
                       std::size_t begin) noexcept {
  if (!peer.lost.ok()) return transfers_.complete(receive, peer.lost);
  const Status named = receive.id != 0 ? Status::success() : transfers_.ids().give(receive);
  if (!named.ok()) {
    outbox_.finish(peer, sender, named);
    return transfers_.complete(receive, named);
  }
  Clearance clearance{receive.id, 0, receive.wanted, {}};
  if (direct && receive.wanted != 0 &&
      fabric_.expose(receive.buffer, receive.wanted, &receive.region).ok()) {
    receive.exposed = true;
    clearance.direct = 1;
    clearance.key = receive.region.key;
  } else {
    receive.streaming = true;
    receive.moved = begin;
    ++peer.streams;
    peer.stream_bytes += receive.wanted;
  }
  post_clearance(peer, sender, clearance, begin);
}

void Rendezvous::post_clearance(Peer& peer, std::uint32_t sender, const Clearance& clearance,
                                std::size_t begin) noexcept {
  Header header{};
  header.transfer = sender;
  header.bytes = begin;
  header.payload = sizeof clearance;
  header.kind = PacketKind::clear_to_send;
  header.detail =
      static_cast<std::uint8_t>(clearance.direct != 0 ? Protocol::write : Protocol::pipelined);
  outbox_.post(peer, header, &clearance);
}

void Rendezvous::cleared(Transfer& send, Peer& peer, const Clearance& clearance,
                         std::size_t begin) noexcept {
  if (send.running) return;
  if (clearance.bytes > send.bytes || begin > clearance.bytes) {
    transfers_.complete(send, Status{Code::corrupt, peer.rank, "more is wanted than there is"});
  } else if (clearance.bytes == 0) {
    outbox_.finish(peer, clearance.transfer, Status::success());
    transfers_.complete(send, Status::success());
  } else if (clearance.direct != 0) {
    send.halved = begin != 0;
    transfers_.run(send, write(send, peer, clearance, begin));
  } else {
    send.halved = false;  // it could not be read
    transfers_.run(send, send_parts(send, peer, clearance, begin));
  }
}

void Rendezvous::receive_part(Transfer& receive, Peer& peer, const Packet& packet) noexcept {
  const std::size_t offset = packet.header.bytes;
  const std::size_t bytes = packet.header.payload;
  if (offset > receive.wanted || bytes > receive.wanted - offset) {
    const Status corrupt{Code::corrupt, peer.rank, "a part lies outside of its message"};
    return receive.halved ? half_over(receive, peer, corrupt)
                          : transfers_.complete(receive, corrupt);
  }
  fabric_.spend(Work::copy, bytes);
  if (bytes > kSmallCopy && past_caches(peer)) {
    copy_streaming(receive.buffer + offset, packet.payload, bytes);
  } else {
    copy_bytes(receive.buffer + offset, packet.payload, bytes);
  }
  receive.moved += bytes;
  if (receive.moved < receive.wanted) return;
  if (receive.halved) return half_over(receive, peer, Status::success());
  transfers_.complete_rest(receive, Status::success());
}

// ---- data

/// RDMA Read: the receiver fetches the data and tells the sender that it is done.
Task Rendezvous::read(Transfer& receive, Peer& peer, Key key, std::size_t begin) noexcept {
  const std::uint32_t sender = receive.sender;
  const std::size_t end = offer_half(receive, peer);
  // Both may soon wait for it; where they compute, the progress thread reads. It is called for what
  // is large alone. And where messages go both ways, the own ones should begin first.
  const bool looked_after = receive.wanted > kPartAlone && engine_.background().attended();
  if (sender_reads(receive) ||
      (!receive.by_kernel && have_processors(peer) && (receive.waited || looked_after)))
    co_await engine_.later();
  Remote source;
  Status status = begin == end ? Status::success() : fabric_.attach(peer.rank, key, &source);
  Completion& completion = receive.completion;
  for (std::size_t offset = begin; status.ok() && offset < end;) {
    const bool may_hand_over = may_both_copy(receive, peer);
    if (may_hand_over && receive.sender_waits) {
      receive.running = false;
      clear(receive, peer, sender, false, offset);
      co_return status;
    }
    const std::size_t bytes = part_of(peer, end - offset, may_hand_over ? kPartAlone : kPart);
    status = fabric_.get(source, offset, receive.buffer + offset, bytes, &completion);
    if (!status.ok()) break;
    status = co_await outcome(engine_.completed(completion, peer.members, peer.rank));
    offset += bytes;
    if (offset < end) co_await engine_.later();
  }
  if (begin != end) peer.readable = peer.mapped != nullptr && status.ok();
  if (cannot_reach(status, peer)) {
    receive.running = false;
    receive.refused = receive.halved;
    if (!receive.halved) {
      clear(receive, peer, sender, false, begin);
    } else if (receive.half_over) {
      want_half_in_parts(receive, peer);
    } else if (!peer.lost.ok()) {
      transfers_.complete(receive, peer.lost);
    }
    co_return status;
  }
  outbox_.finish(peer, sender, status);
  if (receive.halved) {
    transfers_.complete_half(receive, true, status);
  } else {
    transfers_.complete_rest(receive, status);
  }
  co_return status;
}

/// RDMA Write: the sender stores the data, and its FIN comes after all of it.
Task Rendezvous::write(Transfer& send, Peer& peer, Clearance clearance,
                       std::size_t begin) noexcept {
  Remote target;
  Status status = fabric_.attach(peer.rank, clearance.key, &target);
  Completion& completion = send.completion;
  for (std::size_t offset = begin; status.ok() && offset < clearance.bytes;) {
    const std::size_t bytes = part_of(peer, clearance.bytes - offset);
    status = fabric_.put(target, offset, send.buffer + offset, bytes, nullptr, &completion,
                         Event::unsolicited);  // as its FIN, which must not overtake it
    if (!status.ok()) break;
    // A network in software must take it in there.
    if (peer.mapped == nullptr && !fabric_.traits().bypass) fabric_.wake(peer.rank);
    status = co_await outcome(engine_.completed(completion, peer.members, peer.rank));
    offset += bytes;
    if (offset < clearance.bytes) co_await engine_.later();
  }
  if (cannot_reach(status, peer)) {
    co_await send_parts(send, peer, clearance, begin);
    co_return Status::success();
  }
  outbox_.finish(peer, clearance.transfer, status);
  end_sending(send, status);
  co_return status;
}

/// Through the byte ring, as there is room.
Task Rendezvous::send_parts(Transfer& send, Peer& peer, Clearance clearance,
                            std::size_t begin) noexcept {
  ++counts_.pipelined;
  Header header{};
  header.transfer = clearance.transfer;
  header.kind = PacketKind::data;
  header.detail = static_cast<std::uint8_t>(Protocol::pipelined);
  Status status;
  for (std::size_t offset = begin; status.ok() && offset < clearance.bytes;) {
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
    status = peer.write(header, send.buffer + offset, outbox_.interrupts(header));
    offset += bytes;
  }
  if (!status.ok()) outbox_.finish(peer, clearance.transfer, status);
  end_sending(send, status);
  co_return status;
}

void Rendezvous::end_sending(Transfer& send, Status status) noexcept {
  if (send.halved) return transfers_.complete_half(send, true, status);
  transfers_.complete(send, status);
}

}  // namespace tutti::p2p
