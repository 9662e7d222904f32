// Queues of what the network cannot take yet, and progress.
#include <unistd.h>

#include <vector>

#include "fabric/queued/queued.hpp"

namespace tutti {
namespace {

constexpr int kLookEvery = 100;          // us
constexpr int kLongestInside = 500'000;  // us that a thread may spend in one call of the network

}  // namespace

void QueuedNetwork::enqueue(Operation& operation) noexcept {
  Queue& queue = queue_of(operation);
  operation.queued = true;
  if (queue.first == nullptr) {
    queue.first = &operation;
    queue.blocked_since_ns = now_ns();
  } else {
    queue.last->next = &operation;
  }
  queue.last = &operation;
  if (!queue.listed) {
    queue.listed = true;
    blocked_.push_back(queue_number(operation));
  }
}

void QueuedNetwork::take_first(Queue& queue) noexcept {
  Operation& operation = *queue.first;
  queue.first = operation.next;
  operation.next = nullptr;
  operation.queued = false;
}

// Of what waits only the first may have been taken in part.
void QueuedNetwork::part_over(Operation& operation, const Status& status) noexcept {
  --operation.parts;
  if (!status.ok()) {
    if (operation.status.ok()) operation.status = status;
    if (operation.queued) take_first(queue_of(operation));
  }
  if (operation.parts == 0 && !operation.queued) end(operation);
}

void QueuedNetwork::fail_queues(std::int32_t peer, const char* why) noexcept {
  for (const Event way : {Event::solicited, Event::unsolicited}) {
    Queue& queue = queues_[queue_number(peer, way)];
    while (queue.first != nullptr) {
      Operation& operation = *queue.first;
      take_first(queue);
      if (operation.status.ok()) operation.status = Status::peer_lost(peer, why);
      if (operation.parts == 0) end(operation);
    }
  }
}

/// Posts what waits in a queue. False when something still waits.
bool QueuedNetwork::retry(std::size_t number, std::uint64_t now) noexcept {
  Queue& queue = queues_[number];
  const auto peer = static_cast<std::int32_t>(number / 2);
  while (queue.first != nullptr) {
    Operation& operation = *queue.first;
    const Posted posted = post(operation);
    if (posted == Posted::blocked) {
      if (patient(peer, queue, now)) return false;
      give_up(peer, "the connection is broken");
      return true;
    }
    queue.blocked_since_ns = now;
    if (posted == Posted::no_room) return false;
    take_first(queue);
    if (posted != Posted::failed) continue;
    // What waits behind it is not waited for again.
    queue.blocked_since_ns = now - timeout_ns_;
    if (operation.parts == 0) end(operation);
  }
  return true;
}

void QueuedNetwork::retry_all() noexcept {
  if (blocked_.empty()) return;
  const std::uint64_t now = now_ns();
  std::erase_if(blocked_, [&](std::size_t number) {
    if (!retry(number, now)) return false;
    queues_[number].listed = false;
    return true;
  });
}

Moved QueuedNetwork::progress(bool wait) noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return Moved::nothing;
  }
  if (!usable()) return Moved::nothing;
  const std::size_t before = finished_.size();
  const Moved moved = poll(wait);
  retry_all();
  return finished_.size() != before ? Moved::something : moved;
}

void QueuedNetwork::drop(std::int32_t peer) noexcept {
  const std::lock_guard lock(mutex_);
  if (usable()) give_up(peer, "the peer is lost");
}

int QueuedNetwork::sleep_on(Attention attention) noexcept {
  const std::lock_guard lock(mutex_);
  return usable() ? arm(attention) : -1;
}

bool QueuedNetwork::must_hear_all() noexcept {
  const std::lock_guard lock(mutex_);
  return usable() && needs_all();
}

bool QueuedNetwork::blocked() noexcept {
  const std::lock_guard lock(mutex_);
  return !blocked_.empty();
}

void QueuedNetwork::leave_to_caller() noexcept {
  for (int i = 0; i < kLongestInside / kLookEvery; ++i) {
    if (mutex_.try_lock()) {
      keeper_ = std::this_thread::get_id();
      mutex_.unlock();
      return;
    }
    usleep(kLookEvery);
  }
}

}  // namespace tutti
