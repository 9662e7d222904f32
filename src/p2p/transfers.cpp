#include "p2p/transfers.hpp"

#include <new>
#include <utility>

namespace tutti::p2p {

Transfers::~Transfers() {
  sweep();
  while (Transfer* transfer = kept_.pop_front()) destroy(transfer);
}

Status Transfers::make_new(Transfer** out) noexcept {
  void* memory = engine_.frames().allocate(sizeof(Transfer));
  if (memory == nullptr) return Status::error(Code::no_memory, "out of memory");
  *out = new (memory) Transfer();
  return Status::success();
}

void Transfers::destroy(Transfer* transfer) noexcept {
  ::operator delete(transfer->copy, std::nothrow);
  transfer->~Transfer();
  FramePool::release(transfer);
}

void Transfers::destroy_garbage() noexcept {
  for (Transfer* transfer : garbage_) give_back(*transfer);
  garbage_.clear();
}

/// Dynamic interrupt requests (RNDV-2006). For large transfers only: their entries hold the lock,
/// which is needed as soon as there is a progress thread.
void Transfers::watch(Transfer& transfer) noexcept {
  const bool in_parts =
      transfer.kind == Transfer::Kind::send;  // all others need nothing of their sender
  if (options_.protocol != Protocol::read_interrupt || transfer.pending ||
      (in_parts && transfer.exposed)) {
    return;
  }
  transfer.pending = true;
  engine_.background().started();
}

void Transfers::run(Transfer& transfer, Task task) noexcept {
  transfer.running = true;
  transfer.task = std::move(task);
  if (transfer.task.done())
    return complete(transfer, transfer.task.result());  // no memory for its frame
  transfer.task.start();
}

void Transfers::depend(Transfer& receive, Peer& peer) noexcept {
  if (receive.wild) receive.context->remove_wild(receive);
  if (receive.open) return;
  receive.peer = &peer;
  peer.add_open(receive);
}

/// What a transfer needs whose other side must answer.
void Transfers::put_away(Transfer& transfer) noexcept {
  transfer.plain = false;
  if (transfer.id != 0) ids_.take_back(transfer);
  if (transfer.exposed) fabric_.withdraw(transfer.region);
  if (transfer.pending) engine_.background().finished();
  transfer.exposed = transfer.running = transfer.withdrawing = transfer.pending = false;
  transfer.halved = transfer.half_over = transfer.refused = false;
}

/// The two come by different ways, in any order. Whoever is told of the loss of a peer may have
/// passed over a receive that a task was to complete.
void Transfers::complete_rest(Transfer& receive, Status status) noexcept {
  if (status.ok() && receive.lacks_head) status = receive.peer->lost;
  if (!status.ok() || !receive.lacks_head) return complete(receive, status);
  receive.has_rest = true;
  receive.running = receive.plain = false;
}

void Transfers::complete_head(Transfer& receive) noexcept {
  receive.lacks_head = false;
  if (receive.has_rest) complete(receive, Status::success());
}

/// As long as its own task runs, that brings it to its end, also where the peer is lost.
void Transfers::complete_half(Transfer& transfer, bool own, Status status) noexcept {
  if (!status.ok()) transfer.outcome.status = status;
  if (own) {
    transfer.running = false;
  } else {
    transfer.half_over = true;
  }
  if (transfer.running) return;
  if (transfer.half_over) return complete(transfer, Status::success());
  if (!transfer.peer->lost.ok()) complete(transfer, transfer.peer->lost);
}

void Transfers::complete(Transfer& transfer, Status status) noexcept {
  if (transfer.posted) transfer.context->matcher.remove(transfer);
  if (transfer.open) transfer.peer->remove_open(transfer);
  if (transfer.wild) transfer.context->remove_wild(transfer);
  if (transfer.peer != nullptr) transfer.peer->forget(transfer);
  if (transfer.id != 0 || transfer.exposed || transfer.running || transfer.pending) [[unlikely]]
    put_away(transfer);
  if (transfer.crosses) [[unlikely]]
    end_crossing(transfer);
  if (!status.ok()) transfer.outcome.status = status;
  end(transfer);
}

void Transfers::cross(Transfer& transfer) noexcept {
  transfer.crosses = true;
  if (transfer.kind == Transfer::Kind::send) {
    episodes_.begin_send(fabric_.now_ns());
  } else {
    episodes_.begin_receive();
  }
}

void Transfers::end_crossing(Transfer& transfer) noexcept {
  transfer.crosses = false;
  if (episodes_.end(transfer.kind == Transfer::Kind::receive)) episodes_.end_all(fabric_.now_ns());
}

}  // namespace tutti::p2p
