// Whom this rank talks to: how ranks find each other, and what becomes of transfers when one of
// them is lost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "p2p/backlog.hpp"
#include "p2p/peer.hpp"
#include "p2p/transfers.hpp"
#include "team/arena_heap.hpp"

namespace tutti::p2p {

class Delivery;

class Peers {
 public:
  /// `delivery` takes what they send.
  Peers(Engine& engine, ArenaHeap& heap, Transfers& transfers, Backlog& backlog,
        Delivery& delivery) noexcept;
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Lays out the table by which ranks find each other, before anything else in the arena.
  Status open() noexcept;
  /// From now on this rank answers those that call.
  void answer() noexcept {
    if (peers_.empty()) listen_to_calls();
  }
  /// Something may be under way that progresses only when this rank is inside. Any thread.
  bool in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
  void set_in_use() noexcept { in_use_.store(true, std::memory_order_relaxed); }

  /// The peer of that rank of the job. After answer().
  Status find(std::int32_t rank, Peer** out) noexcept;
  /// nullptr: it has not been talked to yet.
  Peer* known(std::int32_t rank) const noexcept {
    return peers_.empty() ? nullptr : peers_[static_cast<std::size_t>(rank)].get();
  }
  /// It cannot be reached any more: ends what depends on it.
  void fail(Peer& peer, Status why) noexcept;
  /// What has come of peers that are lost counts: takes it all, before a receive is told of a loss.
  /// Not from within drain().
  void take_rest() noexcept {
    if (losses_ != 0) [[unlikely]]
      take_rest_of_lost();
  }

  /// By rank; nullptr: not talked to yet.
  const std::vector<std::unique_ptr<Peer>>& all() const noexcept { return peers_; }
  /// Those that have been given an inbound area.
  const std::vector<Peer*>& inbound() const noexcept { return inbound_; }
  /// Shared memory for each rank that this one has received from, and per rank of the job.
  std::size_t bytes_per_peer() const noexcept {
    return inbound_bytes(std::max(site_.ring, site_.far_ring)) + sizeof(CreditLine);
  }

  FramePool& frames() noexcept { return engine_.frames(); }  // of its tasks

 private:
  void take_rest_of_lost() noexcept;
  void listen_to_calls() noexcept;
  void accept(Peer& peer) noexcept;
  Task answer_calls() noexcept;
  Task listen(Peer& peer) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  Transfers& transfers_;
  Backlog& backlog_;
  Delivery& delivery_;
  Site site_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by job rank; made when first talked to
  std::vector<Peer*> inbound_;
  Membership nobody_;  // of waits that depend on no rank
  Task answering_;
  std::uint64_t accepted_ = 0, losses_ = 0;
  // This rank has sent, received or probed, or was called. Written under the guard, and only ever
  // set; read without it, ordered with nothing: who reads it early comes again.
  std::atomic<bool> in_use_{false};
};

}  // namespace tutti::p2p
