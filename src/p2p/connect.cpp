// How ranks find each other, and what becomes of transfers when one of them is lost.
#include <algorithm>
#include <new>

#include "p2p/messages.hpp"

namespace tutti::p2p {

Messages::Messages(Engine& engine, ArenaHeap& heap, const Options& options) noexcept
    : engine_(engine),
      fabric_(engine.fabric()),
      options_(options),
      site_{engine, engine.fabric(), heap, {}} {
  options_.eager = std::min(options_.eager, kMostEager);
  nobody_.background = true;
}

Status Messages::open() noexcept {
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
  site_.ring = ring_bytes_for(near);
  engine_.count_sleepers_in(site_.own<std::atomic<std::uint32_t>>(site_.table.attention()));
  return Status::success();
}

/// The host uses messages: whoever waits or polls must move them on from now on. Also where no peer
/// is known yet: a receive from anybody waits for calls.
void Messages::use() noexcept {
  in_use_.store(true, std::memory_order_relaxed);
  if (!garbage_.empty()) sweep();
  listen_to_calls();
}

/// The first time: from now on this rank answers.
void Messages::listen_to_calls() noexcept {
  if (!peers_.empty() || fabric_.traits().elided_payload) return;
  peers_.resize(site_.table.ranks);
  answering_ = answer_calls();
  answering_.start();
}

Status Messages::peer_of(std::int32_t rank, Peer** out) noexcept {
  auto& place = peers_[static_cast<std::size_t>(rank)];
  if (!place) {
    Remote arena;
    TUTTI_TRY(fabric_.arena_of(rank, &arena));
    place.reset(new (std::nothrow) Peer(site_, rank));
    if (!place) return Status::error(Code::no_memory, "out of memory");
    in_use_.store(true, std::memory_order_relaxed);
    place->listening = listen(*place);
    place->listening.start();
  }
  *out = place.get();
  return Status::success();
}

Context& Messages::context_of(const std::uint64_t id[2]) noexcept {
  if (last_context_ != nullptr && last_context_->id[0] == id[0] && last_context_->id[1] == id[1]) {
    return *last_context_;
  }
  auto& place = contexts_[{id[0], id[1]}];
  if (!place) {
    place = std::make_unique<Context>();
    place->id[0] = id[0];
    place->id[1] = id[1];
  }
  last_context_ = place.get();
  return *place;
}

Context& Messages::context_of(Team& team) noexcept {
  if (team.messages != nullptr) return *static_cast<Context*>(team.messages);
  Context& context = context_of(team.id());
  context.team = &team;
  context.members = Membership{team.membership().ranks, team.size(), {}, true};
  team.messages = &context;
  return context;
}

void Messages::forget(Team& team) noexcept {
  auto* context = static_cast<Context*>(team.messages);
  if (context == nullptr) return;
  fail_wild(*context, Status::error(Code::invalid_argument, "the team was given up"));
  drop_arrivals(*context);
  // Buffered sends go on without it.
  for (auto& peer : peers_) {
    if (!peer) continue;
    for (Transfer* open = peer->open.first(); open != nullptr; open = peer->open.next(*open))
      if (open->team_ == &team) open->team_ = nullptr, open->context_ = nullptr;
  }
  if (last_context_ == context) last_context_ = nullptr;
  team.messages = nullptr;
  contexts_.erase({context->id[0], context->id[1]});
}

// ---- calls
// -----------------------------------------------------------------------------------------

Task Messages::answer_calls() noexcept {
  const auto* calls = site_.own<Word>(site_.table.calls());
  for (;;) {
    const Status status = co_await outcome(engine_.reached_any(
        calls, static_cast<std::uint32_t>(site_.table.ranks), accepted_ + 1, nobody_));
    if (!status.ok()) co_return status;  // nobody_ is never lost
    for (std::int32_t rank = 0; rank < fabric_.size(); ++rank) {
      if (calls[rank].load(std::memory_order_acquire) == 0) continue;
      Peer* peer = nullptr;
      if (peer_of(rank, &peer).ok()) accept(*peer);
    }
  }
}

void Messages::accept(Peer& peer) noexcept {
  if (peer.accepted() || !peer.lost.ok()) return;
  ++accepted_;
  const Status status = peer.accept();
  if (status.ok()) {
    inbound_.push_back(&peer);
  } else {
    fail_peer(peer, status);
  }
}

Task Messages::listen(Peer& peer) noexcept {
  for (;;) {
    Status status;
    if (peer.accepted()) {
      status = co_await outcome(
          engine_.reached(peer.flag(), Flag::least(peer.received), peer.members, peer.rank));
    } else {
      status = co_await outcome(engine_.reached(peer.called_by(), 1, peer.members, peer.rank));
    }
    if (!status.ok()) {
      fail_peer(peer, status);
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
      drain(peer);
      if (peer.lost.code == Code::corrupt) co_return peer.lost;  // nothing behind it can be told
    }
  }
}

/// Writes the packets of the queue as there is room for them.
Task Messages::flush(Peer& peer) noexcept {
  if (!peer.called()) {
    if (const Status status = peer.call(); !status.ok()) {
      fail_peer(peer, status);
      co_return status;
    }
  }
  if (!peer.connected()) {
    co_await engine_.reached(peer.answer(), 1, peer.members, peer.rank);
    if (const Status status = peer.connect(); !status.ok()) {
      fail_peer(peer, status);
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
    left_queue(packet);
    if (!status.ok()) {
      fail_peer(peer, status);
      co_return status;
    }
  }
  peer.emptied.store(peer.emptied.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  co_return Status::success();
}

// ---- losses
// ----------------------------------------------------------------------------------------

void Messages::fail_peer(Peer& peer, Status why) noexcept {
  if (!peer.lost.ok()) return;
  peer.lost = why;
  while (Outgoing* packet = peer.queue.pop_front()) left_queue(packet);
  // Those that a task brings to their end hear of it in their own waits, which depend on the same
  // peer.
  List<Transfer, &Transfer::in_peer> others;
  while (Transfer* transfer = peer.open.pop_front()) {
    if (transfer->running_) {
      others.push_back(*transfer);
    } else {
      transfer->open_ = false;
      complete(*transfer, why);
    }
  }
  while (Transfer* transfer = others.pop_front()) peer.open.push_back(*transfer);
  peer.members.background = peer.open.empty();
}

void Messages::fail_wild(Context& context, Status why) noexcept {
  while (Transfer* transfer = context.wild.first()) complete(*transfer, why);
}

Task Messages::guard(Context& context) noexcept {
  static const Word kNever{0};
  for (;;) {
    const Status status = co_await outcome(engine_.reached(kNever, 1, context.members));
    fail_wild(context, status);
    if (status.code != Code::timeout) co_return status;
    context.members.broken = Status::success();
    co_await engine_.later();
  }
}

}  // namespace tutti::p2p
