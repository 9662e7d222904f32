#include "p2p/backlog.hpp"

namespace tutti::p2p {

void Backlog::left(Outgoing* packet) noexcept {
  FramePool::release(packet);
  if (--queued_ != 0 || !covered_) return;
  covered_ = false;
  engine_.background().uncover();
}

void Backlog::cover(Engine::Guard& guard) noexcept {
  if (engine_.fabric().traits().virtual_time) return;
  guard.escalate();
  covered_ = true;
  engine_.background().cover();
}

}  // namespace tutti::p2p
