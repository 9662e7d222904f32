// Operations, from the caller to the network and back when it has completed them.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "fabric/queued/queued.hpp"

namespace tutti {
namespace {

constexpr Status kNoMemory = Status::error(Code::no_memory, "out of memory");
constexpr Status kClosed = Status::error(Code::internal, "the network is closed");

}  // namespace

std::uint64_t QueuedNetwork::now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Status QueuedNetwork::no_registration() noexcept {
  return Status::error(Code::no_memory,
                       "memory cannot be registered: raise the limit of locked memory (ulimit -l)");
}

void QueuedNetwork::start(Registrar* registrar, double timeout_s) noexcept {
  registrar_ = registrar;
  memory_.open(registrar);
  timeout_ns_ = static_cast<std::uint64_t>(timeout_s * 1e9);
  open_ = true;
}

void QueuedNetwork::close_memory() noexcept {
  for (Slab& slab : slabs_) {
    for (std::size_t i = 0; i < Slab::kOperations; ++i)
      memory_.release(slab.operations[i].memory, nullptr, 0, false);
    if (slab.registration.region != nullptr) registrar_->remove(slab.registration);
    slab.registration = Registration{};
  }
  memory_.close();
}

Status QueuedNetwork::meet(const NetworkAddress* all, int size, int rank,
                           const Secret& secret) noexcept {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  secret_ = secret;
  addresses_.assign(all, all + size);
  queues_.resize(2 * static_cast<std::size_t>(size));
  return prepare_for_peers();
}

Status QueuedNetwork::expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept {
  const std::lock_guard lock(mutex_);
  if (!usable()) return kClosed;
  Registration region;
  NetworkMemory memory;
  TUTTI_TRY(register_for_peers(base, bytes, &region, &memory));
  if (!memory_.know(base, region)) {
    registrar_->remove(region);
    return kNoMemory;
  }
  memory.handle = reinterpret_cast<std::uint64_t>(region.region);
  use_.registered += bytes;
  *out = memory;
  return Status::success();
}

void QueuedNetwork::withdraw(const NetworkMemory& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (memory.handle != 0 && !left_to_another())
    use_.registered -= memory_.forget(reinterpret_cast<const void*>(memory.handle));
}

bool QueuedNetwork::add_slab() noexcept {
  Slab slab;
  slab.operations.reset(new (std::nothrow) Operation[Slab::kOperations]);
  if (!slab.operations) return false;
  if (registers_operations_ &&
      !registrar_->add(slab.operations.get(), sizeof(Operation) * Slab::kOperations, false,
                       &slab.registration))
    return false;
  for (std::size_t i = 0; i < Slab::kOperations; ++i) {
    Operation& operation = slab.operations[i];
    operation.token = slab.registration.token;
    operation.next = free_;
    free_ = &operation;
  }
  slabs_.push_back(std::move(slab));
  return true;
}

// What give_back() and end() have left clear is not cleared again.
QueuedNetwork::Operation* QueuedNetwork::make(Kind kind, const NetworkTarget& target,
                                              Completion* completion) noexcept {
  if (free_ == nullptr && !add_slab()) return nullptr;
  Operation* operation = std::exchange(free_, free_->next);
  operation->next = nullptr;
  operation->completion = completion;
  operation->local = nullptr;
  operation->bytes = operation->posted = 0;
  operation->target = target;
  operation->value = 0;
  operation->parts = 0;
  operation->kind = kind;
  operation->counts = operation->queued = false;
  operation->event = operation->way = Event::solicited;
  operation->status = Status::success();
  return operation;
}

void QueuedNetwork::give_back(Operation& operation) noexcept {
  operation.copy.reset();
  operation.completion = operation.abandoned = nullptr;
  operation.next = free_;
  free_ = &operation;
}

Status QueuedNetwork::put(const NetworkTarget& target, const void* source, std::size_t bytes,
                          const NetworkTarget* counter, std::uint64_t value, Completion* completion,
                          Event event) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::put, target, completion);
  if (operation == nullptr) return kNoMemory;
  operation->event = event;
  operation->local = static_cast<std::byte*>(const_cast<void*>(source));
  operation->bytes = bytes;
  if (counter != nullptr) {
    operation->counts = true;
    operation->counter = *counter;
    operation->value = value;
  }
  if (completion == nullptr && bytes != 0) {
    operation->copy.reset(new (std::nothrow) std::byte[bytes]);
    if (!operation->copy) {
      give_back(*operation);
      return kNoMemory;
    }
    std::memcpy(operation->copy.get(), source, bytes);
    operation->local = operation->copy.get();
  }
  return submit(*operation);
}

Status QueuedNetwork::get(const NetworkTarget& source, void* destination, std::size_t bytes,
                          Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::get, source, completion);
  if (operation == nullptr) return kNoMemory;
  operation->local = static_cast<std::byte*>(destination);
  operation->bytes = bytes;
  return submit(*operation);
}

Status QueuedNetwork::notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept {
  const std::lock_guard lock(mutex_);
  return notify(anywhere, notice, Event::solicited);
}

Status QueuedNetwork::notify_last(const NetworkTarget& anywhere, std::uint32_t notice) noexcept {
  const std::lock_guard lock(mutex_);
  const bool both =
      parted(anywhere.peer) && notify(anywhere, notice | kLast, Event::unsolicited).ok();
  return notify(anywhere, both ? notice | kLast : notice, Event::solicited);
}

/// Where unsolicited puts have a way of their own the receiver looks there too from the one bell on
/// until the other has come: so it has seen all that was put before them.
void QueuedNetwork::ring(const NetworkTarget& anywhere) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint32_t bell = kBell | static_cast<std::uint32_t>(rank_);
  if (parted(anywhere.peer) && !notify(anywhere, bell, Event::unsolicited).ok()) return;
  // A peer that is lost is found by those who wait for it.
  static_cast<void>(notify(anywhere, bell, Event::solicited));
}

Status QueuedNetwork::notify(const NetworkTarget& anywhere, std::uint32_t notice,
                             Event event) noexcept {
  Operation* operation = make(Kind::notice, anywhere, nullptr);
  if (operation == nullptr) return kNoMemory;
  operation->counts = true;
  operation->counter = anywhere;
  operation->value = notice & ~kArrival;
  operation->event = event;
  return submit(*operation);
}

/// Takes an operation over, or gives it back to the free list and says why.
Status QueuedNetwork::submit(Operation& operation) noexcept {
  const std::int32_t peer = operation.target.peer;
  if (left_to_another()) {  // who waits for it waits for the end of the process
    give_back(operation);
    return Status::success();
  }
  if (parted(peer)) operation.way = operation.event;
  Status status = open_ ? reach(peer) : kClosed;
  if (status.ok()) {
    const Posted posted = queue_of(operation).first != nullptr ? Posted::blocked : post(operation);
    if (posted == Posted::no_room || posted == Posted::blocked) enqueue(operation);
    // Where it has failed in part, it is over when that part is.
    if (posted != Posted::failed || operation.parts != 0) {
      ++pending_;
      if (operation.way == Event::unsolicited) ++unsolicited_pending_;
      return Status::success();
    }
    status = operation.status;
  }
  memory_.release(operation.memory, operation.local, operation.bytes, false);
  give_back(operation);
  return status;
}

QueuedNetwork::Posted QueuedNetwork::find_memory(Operation& operation) noexcept {
  if (operation.bytes == 0 || operation.memory.address != nullptr) return Posted::all;
  if (!registers_sources_) {
    operation.memory.address = operation.local;
    return Posted::all;
  }
  switch (memory_.acquire(operation.local, operation.bytes, operation.kind == Kind::get,
                          &operation.memory)) {
    case LocalMemory::Answer::ready:
      return Posted::all;
    case LocalMemory::Answer::later:
      return Posted::no_room;
    case LocalMemory::Answer::refused:
      break;
  }
  operation.status = no_registration();
  return Posted::failed;
}

/// The operation is over: its status says how. It is in no queue, and the network has nothing of
/// it.
void QueuedNetwork::end(Operation& operation) noexcept {
  const bool good = operation.status.ok();
  if (good) queue_of(operation).reached = true;
  const bool deliver = good && operation.kind == Kind::get && operation.abandoned == nullptr;
  memory_.release(operation.memory, operation.local, operation.bytes, deliver);
  if (operation.completion != nullptr || !good)
    finished_.push_back({operation.completion, operation.status});
  if (operation.way == Event::unsolicited) --unsolicited_pending_;
  give_back(operation);
  --pending_;
}

std::size_t QueuedNetwork::finished(NetworkFinished* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, finished_.size());
  std::copy_n(finished_.begin(), count, out);
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t QueuedNetwork::notices(std::uint32_t* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, notices_.size());
  std::copy_n(notices_.begin(), count, out);
  notices_.erase(notices_.begin(), notices_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t QueuedNetwork::forget(Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  for (NetworkFinished& over : finished_) {
    if (over.completion == completion) over.completion = nullptr;
  }
  std::size_t reads = 0;
  for (const Slab& slab : slabs_) {
    for (std::size_t i = 0; i < Slab::kOperations; ++i) {
      Operation& operation = slab.operations[i];
      if (operation.completion == completion) {
        operation.completion = nullptr;
        operation.abandoned = completion;
      }
      // A read through a block of this network's own writes to no memory of the caller's any more.
      if (operation.abandoned == completion && operation.kind == Kind::get &&
          operation.memory.block < 0)
        ++reads;
    }
  }
  return reads;
}

std::size_t QueuedNetwork::pending() noexcept {
  const std::lock_guard lock(mutex_);
  return pending_;
}

NetworkUse QueuedNetwork::use() noexcept {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace tutti
