// How ranks part: what has been sent arrives where a receive waits for it, whoever asked for it and
// whether anybody still does; what will never be matched is ended.
//
// MPI 4.1, section 11.2.2: a program may call MPI_Finalize with sends and receives whose requests
// it has freed, and with buffered messages that nobody has received yet. Who is there first has to
// stay.
#include "p2p/messages.hpp"

namespace tutti::p2p {

/// In all queues there is nothing left, and whoever was called has answered.
bool Messages::all_has_left() const noexcept {
  for (const auto& peer : peers_) {
    if (!peer || !peer->lost.ok() || !peer->called()) continue;
    if (!peer->queue.empty() || !peer->connected()) return false;
  }
  return true;
}

/// To everybody whom this rank has called: no envelopes come after this one. Peers that are called
/// later, for answers only, hear it first (enqueue()).
void Messages::say_last() noexcept {
  Entry guard(*this);
  last_said_ = true;
  for (auto& peer : peers_) {
    if (peer && peer->called()) say_last_to(*peer);
  }
  engine_.wait_until([this] { return all_has_left(); }, guard);
}

void Messages::say_last_to(Peer& peer) noexcept {
  if (peer.said_last || peer.rank == fabric_.rank()) return;
  peer.said_last = true;
  Header last{};
  last.kind = PacketKind::last;
  post(peer, last, nullptr);
}

/// All that was sent to this rank is matched now, or kept.
void Messages::hear_last() noexcept {
  Engine::Guard guard(engine_);
  engine_.wait_until(
      [this] {
        for (const Peer* peer : inbound_) {
          if (!peer->heard_last && peer->lost.ok() && peer->rank != fabric_.rank()) return false;
        }
        return true;
      },
      guard);
}

void Messages::give_up(Transfer& receive) noexcept {
  receive.receipt_.cancelled = true;
  complete(receive, Status::success());
}

/// Receives that nobody will answer, and messages that nobody will receive.
void Messages::end_unmatched() noexcept {
  Entry guard(*this);
  for (auto& peer : peers_) {
    if (!peer) continue;
    for (Transfer* transfer = peer->open.first(); transfer != nullptr;) {
      Transfer* const next = peer->open.next(*transfer);
      if (transfer->posted_) give_up(*transfer);
      transfer = next;
    }
  }
  for (auto& [id, context] : contexts_) {
    while (Transfer* transfer = context->wild.first()) give_up(*transfer);
    drop_arrivals(*context);
  }
}

void Messages::drop_arrivals(Context& context) noexcept {
  while (Arrival* arrival = context.matcher.first_arrival()) {
    context.matcher.remove(*arrival);
    drop(arrival);
  }
}

void Messages::discard(Arrival* message) noexcept {
  Entry guard(*this);
  drop(message);
}

void Messages::conclude(bool (*meet)(void*), void* self) noexcept {
  if (!meet(self)) return end_unmatched();
  say_last();
  // Who has called this rank is known to it when all have been answered.
  if (!meet(self)) return end_unmatched();
  hear_last();
  end_unmatched();
  {
    Engine::Guard guard(engine_);
    engine_.wait_until([this] { return unfinished_ == 0 && all_has_left(); }, guard);
  }
  meet(self);
}

}  // namespace tutti::p2p
