#include "p2p/peers.hpp"

#include <new>

#include "p2p/delivery.hpp"

namespace tutti::p2p {

Peers::Peers(Engine& engine, ArenaHeap& heap, Transfers& transfers, Backlog& backlog,
             Delivery& delivery) noexcept
    : engine_(engine),
      fabric_(engine.fabric()),
      transfers_(transfers),
      backlog_(backlog),
      delivery_(delivery),
      site_{engine, engine.fabric(), heap, {}} {
  nobody_.background = nobody_.belled = true;
}

Peers::~Peers() {
  for (auto& peer : peers_) {
    if (!peer) continue;
    peer->listening.reset();
    peer->flushing.reset();
    while (Transfer* transfer = peer->open.pop_front()) {
      transfer->task.reset();
      if (transfer->released) Transfers::destroy(transfer);
    }
    while (Outgoing* packet = peer->queue.pop_front()) FramePool::release(packet);
  }
}

Status Peers::open() noexcept {
  if (fabric_.traits().elided_payload) return Status::success();  // no messages without contents
  const auto ranks = static_cast<std::size_t>(fabric_.size());
  bool fresh = false;
  std::size_t offset = 0;
  TUTTI_TRY(site_.heap.allocate(Table::bytes(ranks), &offset, &fresh));
  // Peers may have called already, and never used memory is zero.
  if (!fresh)
    return Status::error(Code::internal, "the table of peers is not at the beginning of the arena");
  site_.table = Table{offset, ranks};
  std::size_t near = 0;
  for (std::int32_t rank = 0; rank < fabric_.size(); ++rank) near += fabric_.maps(rank) ? 1 : 0;
  const Traits& traits = fabric_.traits();
  site_.ring = inbound_ring_for(near, ring_bytes_for(traits.core_cache, traits.keeps_evicted));
  site_.far_trains = !traits.bypass;
  if (site_.far_trains) site_.far_ring = far_ring_for(ranks - near, fabric_.arena().bytes / 64);
  return Status::success();
}

Status Peers::find(std::int32_t rank, Peer** out) noexcept {
  auto& place = peers_[static_cast<std::size_t>(rank)];
  if (!place) {
    Remote arena;
    TUTTI_TRY(fabric_.arena_of(rank, &arena));
    place.reset(new (std::nothrow) Peer(site_, rank));
    if (!place) return Status::error(Code::no_memory, "out of memory");
    set_in_use();
    place->listening = listen(*place);
    place->listening.start();
  }
  *out = place.get();
  return Status::success();
}

// ---- calls

void Peers::listen_to_calls() noexcept {
  if (fabric_.traits().elided_payload) return;
  peers_.resize(site_.table.ranks);
  answering_ = answer_calls();
  answering_.start();
}

Task Peers::answer_calls() noexcept {
  const auto* calls = site_.own<Word>(site_.table.calls());
  for (;;) {
    const Status status = co_await outcome(engine_.reached_any(
        calls, static_cast<std::uint32_t>(site_.table.ranks), accepted_ + 1, nobody_));
    if (!status.ok()) co_return status;  // nobody_ is never lost
    for (std::int32_t rank = 0; rank < fabric_.size(); ++rank) {
      if (calls[rank].load(std::memory_order_acquire) == 0) continue;
      Peer* peer = nullptr;
      if (find(rank, &peer).ok()) accept(*peer);
    }
  }
}

void Peers::accept(Peer& peer) noexcept {
  if (peer.accepted() || !peer.lost.ok()) return;
  ++accepted_;
  const Status status = peer.accept();
  if (status.ok()) {
    inbound_.push_back(&peer);
  } else {
    fail(peer, status);
  }
}

Task Peers::listen(Peer& peer) noexcept {
  for (;;) {
    Status status;
    if (peer.accepted()) {
      status = co_await outcome(
          engine_.reached_aside(peer.flag(), Flag::least(peer.received), peer.members, peer.rank));
    } else {
      status = co_await outcome(engine_.reached(peer.called_by(), 1, peer.members, peer.rank));
    }
    if (!status.ok()) {
      fail(peer, status);
      if (status.code != Code::timeout) co_return status;
      // What was waited for has failed; the peer itself may only be late. Not waited for again at
      // once: the engine is still failing the waits that depend on it.
      peer.members.broken = Status::success();
      peer.lost = Status::success();
      co_await engine_.later();
    } else if (!peer.accepted()) {
      accept(peer);
      if (!peer.accepted()) co_return peer.lost;
    } else {
      delivery_.drain(peer);
      if (peer.lost.code == Code::corrupt) co_return peer.lost;  // nothing behind it can be told
    }
  }
}

// ---- losses

void Peers::take_rest_of_lost() noexcept {
  fabric_.progress();
  for (std::size_t i = 0; i < inbound_.size(); ++i) {
    Peer& peer = *inbound_[i];
    while (!peer.lost.ok() && peer.lost.code != Code::corrupt && peer.arrived()) {
      if (!delivery_.drain(peer)) break;
    }
  }
}

void Peers::fail(Peer& peer, Status why) noexcept {
  if (!peer.lost.ok()) return;
  peer.lost = why;
  ++losses_;
  while (Outgoing* packet = peer.queue.pop_front()) backlog_.left(packet);
  // Those that a task brings to their end hear of it in their own waits, which depend on the same
  // peer.
  List<Transfer, &Transfer::in_peer> others;
  while (Transfer* transfer = peer.open.pop_front()) {
    if (transfer->running) {
      others.push_back(*transfer);
    } else {
      transfer->open = false;
      transfers_.complete(*transfer, why);
    }
  }
  while (Transfer* transfer = others.pop_front()) peer.open.push_back(*transfer);
  peer.members.background = peer.open.empty();
}

}  // namespace tutti::p2p
