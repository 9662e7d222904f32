#include "p2p/unexpected.hpp"

#include <cstring>
#include <new>

#include "team/copy_small.hpp"

namespace tutti::p2p {

Arrival* Unexpected::keep(Context& context, Peer& peer, const Header& header,
                          const void* payload) noexcept {
  const bool announced = header.kind == PacketKind::request_to_send;
  const bool eager = !announced && payload != nullptr;
  Announcement said{};
  if (announced && payload != nullptr) std::memcpy(&said, payload, header.payload);
  const std::size_t kept = eager ? header.bytes : said.head;
  void* memory = engine_.frames().allocate(sizeof(Arrival) + kept);
  if (memory == nullptr) return nullptr;
  auto* arrival = new (memory) Arrival();
  arrival->context = &context;
  arrival->from = &peer;
  arrival->header = header;
  arrival->key = said.key;
  arrival->kept = kept;
  counts_.held_bytes += kept;
  if (eager || kept != 0) arrival->payload = reinterpret_cast<std::byte*>(arrival + 1);
  const std::size_t there = eager ? header.payload : 0;
  if (eager) {
    engine_.fabric().spend(Work::copy, there);
    copy_small(arrival->payload, payload, there);
  }
  if (there < kept) {
    peer.train = {header, there, nullptr, arrival};
    peer.train.header.bytes = kept;
  }
  context.matcher.add(*arrival);
  return arrival;
}

void Unexpected::withdraw(Context& context, Peer& peer, const Header& header) noexcept {
  Arrival* const arrival = context.matcher.announced(peer, header.transfer);
  if (arrival == nullptr) return;  // matched: the transfer takes its course
  context.matcher.remove(*arrival);
  if (arrival->payload != nullptr) {
    counts_.held_bytes -= arrival->kept;
    peer.deliver(arrival->kept);
    if (peer.train.arrival == arrival) peer.train.arrival = nullptr;
  }
  FramePool::release(arrival);
  Header reply{};
  reply.transfer = header.transfer;
  reply.kind = PacketKind::withdrawn;
  outbox_.post(peer, reply, nullptr);
}

void Unexpected::drop(Arrival* arrival) noexcept {
  Peer& peer = *arrival->from;
  const bool own = peer.rank == engine_.fabric().rank();
  const Header header = arrival->header;
  if (arrival->payload != nullptr) {
    counts_.held_bytes -= arrival->kept;
    if (!own) peer.deliver(arrival->kept);
  }
  if (peer.train.arrival == arrival) peer.train.arrival = nullptr;
  Transfer* const local = arrival->local;
  FramePool::release(arrival);
  if (local != nullptr) {
    transfers_.complete(*local,
                        Status::error(Code::invalid_argument, "nobody has received the message"));
  }
  if (!own && header.kind != PacketKind::eager) {
    outbox_.finish(peer, header.transfer,
                   Status::error(Code::invalid_argument, "the receiver has given up the team"));
  }
}

void Unexpected::drop_all(Context& context) noexcept {
  while (Arrival* arrival = context.matcher.first_arrival()) {
    context.matcher.remove(*arrival);
    drop(arrival);
  }
}

}  // namespace tutti::p2p
