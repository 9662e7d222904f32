#include "p2p/parting.hpp"

#include <algorithm>

namespace tutti::p2p {
namespace {

/// A send goes on although its host has given it up.
bool sends_on(const Peer& peer, const Group* group) noexcept {
  for (Transfer* open = peer.open.first(); open != nullptr; open = peer.open.next(*open)) {
    if (open->released && open->kind == Transfer::Kind::send &&
        (group == nullptr || open->group == group))
      return true;
  }
  return false;
}

}  // namespace

void Parting::say_last() noexcept {
  Entry guard(engine_, backlog_);
  outbox_.say_last();
  engine_.wait_until([this] { return outbox_.all_has_left(); }, guard);
}

/// All that was sent to this rank is matched now, or kept.
void Parting::hear_last() noexcept {
  Engine::Guard guard(engine_);
  const std::int32_t self = engine_.fabric().rank();
  engine_.wait_until(
      [this, self] {
        const auto& inbound = peers_.inbound();
        return std::all_of(inbound.begin(), inbound.end(), [self](const Peer* peer) {
          return peer->heard_last || !peer->lost.ok() || peer->rank == self;
        });
      },
      guard);
}

/// Receives that nobody will answer, and messages that nobody will receive.
void Parting::end_unmatched() noexcept {
  Entry guard(engine_, backlog_);
  for (const auto& peer : peers_.all()) {
    if (!peer) continue;
    for (Transfer* transfer = peer->open.first(); transfer != nullptr;) {
      Transfer* const next = peer->open.next(*transfer);
      if (transfer->posted) transfers_.complete_cancelled(*transfer);
      transfer = next;
    }
  }
  contexts_.for_each([this](Context& context) {
    while (Transfer* transfer = context.wild.first()) transfers_.complete_cancelled(*transfer);
    unexpected_.drop_all(context);
  });
}

void Parting::conclude(Meeting& meeting) noexcept {
  if (!meeting.meet()) return end_unmatched();
  say_last();
  // Who has called this rank is known to it when all have been answered.
  if (!meeting.meet()) return end_unmatched();
  hear_last();
  end_unmatched();
  {
    Engine::Guard guard(engine_);
    engine_.wait_until([this] { return transfers_.unfinished() == 0 && outbox_.all_has_left(); },
                       guard);
  }
  meeting.meet();
}

bool Parting::has_sent(const Group* group) const noexcept {
  const std::int32_t self = engine_.fabric().rank();
  return std::none_of(peers_.all().begin(), peers_.all().end(), [self, group](const auto& peer) {
    if (!peer || (group == nullptr && peer->rank == self)) return false;
    return !peer->queue.empty() || sends_on(*peer, group);
  });
}

void Parting::forget(Group& group) noexcept {
  Context* const context = Contexts::known(group);
  if (context == nullptr) return;
  contexts_.fail_wild(*context, Status::error(Code::invalid_argument, "the team was given up"));
  unexpected_.drop_all(*context);
  // Buffered sends go on without it.
  for (const auto& peer : peers_.all()) {
    if (!peer) continue;
    for (Transfer* open = peer->open.first(); open != nullptr; open = peer->open.next(*open))
      if (open->group == &group) open->group = nullptr, open->context = nullptr;
  }
  contexts_.erase(*context);
}

}  // namespace tutti::p2p
