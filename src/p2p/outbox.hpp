// How packets leave: at once where nothing waits for its turn, else behind what does.
#pragma once

#include <cstdint>

#include "engine/engine.hpp"
#include "p2p/backlog.hpp"
#include "p2p/options.hpp"
#include "p2p/peers.hpp"

namespace tutti::p2p {

class Outbox {
 public:
  Outbox(Engine& engine, const Options& options, Peers& peers, Backlog& backlog,
         Counts& counts) noexcept
      : engine_(engine), options_(options), peers_(peers), backlog_(backlog), counts_(counts) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// A control packet, with at most sizeof(Clearance) bytes of data.
  void post(Peer& peer, const Header& header, const void* payload) noexcept;
  /// Any packet, where the way is clear and there is room. `interrupts`: it wakes a progress
  /// thread.
  void write(Peer& peer, const Header& header, const void* payload, bool interrupts) noexcept;
  /// Behind what waits already. The payload is copied: what is small leaves the sender's hands at
  /// once, within the allowance of the peer.
  void enqueue(Peer& peer, const Header& header, const void* payload) noexcept;
  /// Tells the peer that its transfer is over.
  void finish(Peer& peer, std::uint32_t transfer, Status status) noexcept;
  /// True when the send's envelope had not left yet: it does not any more.
  bool take_back(Peer& peer, const Transfer& send) noexcept;
  /// Whether a packet wakes a progress thread; of a train, the last one of it.
  bool interrupts(const Header& header) const noexcept;

  /// To everybody whom this rank has called: no envelopes come after this one. Peers that are
  /// called later, for answers only, hear it first.
  void say_last() noexcept;
  /// In all queues there is nothing left, and whoever was called has answered.
  bool all_has_left() const noexcept;

  FramePool& frames() noexcept { return engine_.frames(); }  // of its tasks

 private:
  void say_last_to(Peer& peer) noexcept;
  Task flush(Peer& peer) noexcept;

  Engine& engine_;
  const Options& options_;
  Peers& peers_;
  Backlog& backlog_;
  Counts& counts_;
  bool last_said_ = false;  // this rank sends no envelopes any more
};

}  // namespace tutti::p2p
