// The packets that wait for their turn in the queues of all peers, and who sees to it that they
// leave.
#pragma once

#include <cstddef>

#include "engine/engine.hpp"
#include "p2p/peer.hpp"

namespace tutti::p2p {

class Backlog {
 public:
  explicit Backlog(Engine& engine) noexcept : engine_(engine) {}
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  bool empty() const noexcept { return queued_ == 0; }
  void entered() noexcept { ++queued_; }
  /// The packet has left its queue. Gives it up.
  void left(Outgoing* packet) noexcept;

  /// There is something, and it leaves only when the host comes in here again.
  bool uncovered() const noexcept { return queued_ != 0 && !covered_; }
  /// Nobody need come in here again for it: the progress thread sends it.
  void cover(Engine::Guard& guard) noexcept;

 private:
  Engine& engine_;
  std::size_t queued_ = 0;
  bool covered_ = false;
};

/// Held by every call that may leave packets behind: from then on the progress thread sends them.
class Entry : public Engine::Guard {
 public:
  Entry(Engine& engine, Backlog& backlog) noexcept : Engine::Guard(engine), backlog_(backlog) {}
  ~Entry() {
    if (backlog_.uncovered()) [[unlikely]]
      backlog_.cover(*this);
  }

 private:
  Backlog& backlog_;
};

}  // namespace tutti::p2p
