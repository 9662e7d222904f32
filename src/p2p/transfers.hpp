// The life of sends and receives, whatever they do in between: how they are made, watched, brought
// to their end and forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "p2p/context.hpp"
#include "p2p/crossings.hpp"
#include "p2p/ids.hpp"
#include "p2p/options.hpp"
#include "p2p/peer.hpp"
#include "p2p/transfer.hpp"

namespace tutti::p2p {

class Transfers {
 public:
  Transfers(Engine& engine, const Options& options) noexcept
      : engine_(engine), fabric_(engine.fabric()), options_(options) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// An inactive one: one that was given back, or new from the engine's frame pool.
  Status make(Context& context, const Wish& wish, Transfer** out) noexcept {
    Transfer* transfer = kept_.pop_front();
    if (transfer == nullptr) TUTTI_TRY(make_new(&transfer));
    transfer->want(context, wish);
    *out = transfer;
    return Status::success();
  }
  /// Keeps an inactive one for make(). Most need nothing of what a large message needs, and are as
  /// new when they are over.
  void give_back(Transfer& transfer) noexcept {
    if (!transfer.plain || transfer.copy != nullptr) [[unlikely]]
      return destroy(&transfer);
    transfer.released = transfer.waited = transfer.sender_waits = transfer.by_kernel = false;
    transfer.peer = nullptr;
    kept_.push_front(transfer);
  }
  static void destroy(Transfer* transfer) noexcept;
  /// The host has given it up: it goes once it is over.
  void release(Transfer& transfer) noexcept {
    transfer.released = true;
    if (!transfer.active()) give_back(transfer);
  }
  /// Destroys those that were given up and are over.
  void sweep() noexcept {
    if (!garbage_.empty()) destroy_garbage();
  }

  void start(Transfer& transfer) noexcept {
    ++transfer.started;
    ++unfinished_;
    transfer.outcome = Receipt{};
    transfer.moved = 0;
    transfer.sender = 0;
    transfer.lacks_head = transfer.has_rest = false;
  }
  /// From now on a request to send raises an interrupt here.
  void watch(Transfer& transfer) noexcept;
  /// Gives it to a task that will complete it.
  void run(Transfer& transfer, Task task) noexcept;
  /// It is over: whatever knows of it forgets it, and who waits for it goes on.
  void complete(Transfer& transfer, Status status) noexcept;
  /// The data behind the head of the receive's message has come, or will not: complete() if the
  /// head has, too.
  void complete_rest(Transfer& receive, Status status) noexcept;
  /// The head has come: complete() if the rest has, too.
  void complete_head(Transfer& receive) noexcept;
  /// One of the two halves of a message is over, this rank's `own` or the other one's: complete()
  /// if both are.
  void complete_half(Transfer& transfer, bool own, Status status) noexcept;
  /// complete() for a receive that was posted and has got its message, in one packet.
  void complete_received(Transfer& receive) noexcept {
    if (receive.pending || receive.crosses) [[unlikely]]
      return complete(receive, Status::success());
    if (receive.open) receive.peer->remove_open(receive);
    if (receive.wild) receive.context->remove_wild(receive);
    end(receive);
  }
  /// It is over, and nothing has been sent or received.
  void complete_cancelled(Transfer& transfer) noexcept {
    transfer.outcome.cancelled = true;
    complete(transfer, Status::success());
  }

  /// From now on the receive, which may have been one from anybody, waits for the peer.
  static void depend(Transfer& receive, Peer& peer) noexcept;

  Ids& ids() noexcept { return ids_; }
  /// A large receive that has been posted, or a send that begins while there is one.
  void cross(Transfer& transfer) noexcept;
  const Episodes& episodes() const noexcept { return episodes_; }
  /// How many have been started and are not over.
  std::size_t unfinished() const noexcept { return unfinished_; }

 private:
  void end(Transfer& transfer) noexcept {
    if (transfer.active()) --unfinished_;
    const bool released = transfer.released;
    transfer.ended.store(transfer.started, std::memory_order_release);
    engine_.moved_on();
    if (released) [[unlikely]]
      garbage_.push_back(&transfer);
  }
  Status make_new(Transfer** out) noexcept;
  void destroy_garbage() noexcept;
  void put_away(Transfer& transfer) noexcept;
  void end_crossing(Transfer& transfer) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  const Options& options_;
  Ids ids_;
  Episodes episodes_;
  std::vector<Transfer*> garbage_;  // released and over
  List<Transfer, &Transfer::in_lane> kept_;
  std::size_t unfinished_ = 0;
};

}  // namespace tutti::p2p
