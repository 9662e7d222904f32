// Operations: from the caller to the device, and back when it has completed them.
#include "fabric/verbs/verbs.hpp"

#include <arpa/inet.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "fabric/verbs/limits.hpp"

namespace tutti::verbs {

Status VerbsNetwork::meet(const NetworkAddress* all, int size, int rank,
                          const Secret& secret) noexcept {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  secret_ = secret;
  addresses_.assign(all, all + size);
  peers_.resize(static_cast<std::size_t>(size));
  const auto wanted = static_cast<std::uint64_t>(size) * kSends + 2 * kReceives;
  const auto most = static_cast<std::uint64_t>(std::max(limits_.max_cqe, 1));
  if (queue_ != nullptr && wanted > static_cast<std::uint64_t>(queue_->cqe) &&
      ibv_resize_cq(queue_, static_cast<int>(std::min(wanted, most))) != 0) {
    return Status::error(Code::no_memory, "the device has no completion queue for so many peers");
  }
  return Status::success();
}

Status VerbsNetwork::expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept {
  const std::lock_guard lock(mutex_);
  if (domain_ == nullptr) return Status::error(Code::internal, "the network is closed");
  Registration region;
  if (!registrar_.add_for_peers(base, bytes, on_demand_, &region)) {
    return errno == ENOMEM || errno == EAGAIN
               ? Status::error(
                     Code::no_memory,
                     "memory cannot be registered: raise the limit of locked memory (ulimit -l)")
               : Status::error(Code::not_permitted, "the device refuses to register memory");
  }
  if (!memory_.know(base, region)) {
    registrar_.remove(region);
    return Status::error(Code::no_memory, "out of memory");
  }
  *out = {reinterpret_cast<std::uint64_t>(region.region), reinterpret_cast<std::uint64_t>(base),
          static_cast<ibv_mr*>(region.region)->rkey};
  use_.registered += bytes;
  return Status::success();
}

void VerbsNetwork::withdraw(const NetworkMemory& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (memory.handle != 0)
    use_.registered -= memory_.forget(reinterpret_cast<const void*>(memory.handle));
}

// ---- operations
// ----------------------------------------------------------------------------------

VerbsNetwork::Operation* VerbsNetwork::make(Kind kind, const NetworkTarget& target,
                                            Completion* completion) noexcept {
  if (free_ == nullptr) {
    auto fresh = std::unique_ptr<Operation>(new (std::nothrow) Operation{});
    if (!fresh) return nullptr;
    free_ = fresh.get();
    operations_.push_back(std::move(fresh));
  }
  Operation* operation = free_;
  free_ = operation->next;
  *operation = Operation{};
  operation->kind = kind;
  operation->target = target;
  operation->completion = completion;
  return operation;
}

Status VerbsNetwork::put(const NetworkTarget& target, const void* source, std::size_t bytes,
                         const NetworkTarget* counter, std::uint64_t value,
                         Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::put, target, completion);
  if (operation == nullptr) return Status::error(Code::no_memory, "out of memory");
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
      operation->next = free_;
      free_ = operation;
      return Status::error(Code::no_memory, "out of memory");
    }
    std::memcpy(operation->copy.get(), source, bytes);
    operation->local = operation->copy.get();
  }
  return submit(*operation);
}

Status VerbsNetwork::get(const NetworkTarget& source, void* destination, std::size_t bytes,
                         Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::get, source, completion);
  if (operation == nullptr) return Status::error(Code::no_memory, "out of memory");
  operation->local = static_cast<std::byte*>(destination);
  operation->bytes = bytes;
  return submit(*operation);
}

Status VerbsNetwork::notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::notice, anywhere, nullptr);
  if (operation == nullptr) return Status::error(Code::no_memory, "out of memory");
  operation->counts = true;
  operation->counter = anywhere;
  operation->value = notice & ~kArrival;
  return submit(*operation);
}

/// Takes an operation over, or gives it back to the free list and says why.
Status VerbsNetwork::submit(Operation& operation) noexcept {
  const std::int32_t rank = operation.target.peer;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  Status status = domain_ == nullptr ? Status::error(Code::internal, "the network is closed")
                                     : start_connecting(rank);
  if (status.ok()) {
    const Posted posted = peer.first != nullptr ? Posted::later : post(peer, operation);
    if (posted == Posted::later) enqueue(peer, operation);
    if (posted != Posted::failed || operation.parts != 0) {
      ++pending_;
      return Status::success();
    }
    status = operation.status;
    memory_.release(operation.memory, operation.local, operation.bytes, false);
  }
  operation.copy.reset();
  operation.next = free_;
  free_ = &operation;
  return status;
}

/// Gives the device what it has not taken of an operation yet. `failed`: its status says why.
VerbsNetwork::Posted VerbsNetwork::post(Peer& peer, Operation& operation) noexcept {
  const std::int32_t rank = operation.target.peer;
  if (peer.link == Link::broken)
    operation.status = Status::peer_lost(rank, "the connection is broken");
  if (!operation.status.ok()) return Posted::failed;
  if (peer.link != Link::ready) return Posted::later;
  const bool reads = operation.kind == Kind::get;
  const bool by_value = !reads && operation.bytes <= inline_bytes_;
  while (operation.posted < operation.bytes) {
    if (peer.taken == kSends) return Posted::later;
    if (!by_value && operation.memory.address == nullptr) {
      const auto answer =
          memory_.acquire(operation.local, operation.bytes, reads, &operation.memory);
      if (answer == LocalMemory::Answer::later) return Posted::later;
      if (answer == LocalMemory::Answer::refused) {
        operation.status = Status::error(
            Code::no_memory,
            "memory cannot be registered: raise the limit of locked memory (ulimit -l)");
        return Posted::failed;
      }
    }
    const std::size_t part = std::min(operation.bytes - operation.posted, largest_part_);
    const std::byte* from = by_value ? operation.local : operation.memory.address;
    ibv_sge place{reinterpret_cast<std::uint64_t>(from) + operation.posted,
                  static_cast<std::uint32_t>(part),
                  static_cast<std::uint32_t>(operation.memory.token)};
    ibv_send_wr request{};
    request.sg_list = &place;
    request.num_sge = 1;
    request.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.send_flags = by_value ? IBV_SEND_INLINE : 0;
    request.wr.rdma.remote_addr = operation.target.address + operation.posted;
    request.wr.rdma.rkey = static_cast<std::uint32_t>(operation.target.key);
    if (!post_part(peer, operation, request)) return Posted::failed;
    operation.posted += part;
  }
  if (!operation.counts) return Posted::all;
  if (peer.taken == kSends) return Posted::later;
  ibv_sge place{reinterpret_cast<std::uint64_t>(&operation.value), sizeof operation.value, 0};
  ibv_send_wr request{};
  const bool notice = operation.kind == Kind::notice;
  request.sg_list = notice ? nullptr : &place;
  request.num_sge = notice ? 0 : 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SOLICITED | (notice ? 0 : IBV_SEND_INLINE);
  request.imm_data = htonl(notice ? static_cast<std::uint32_t>(operation.value) : kArrival);
  request.wr.rdma.remote_addr = operation.counter.address;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(operation.counter.key);
  if (!post_part(peer, operation, request)) return Posted::failed;
  operation.counts = false;
  return Posted::all;
}

bool VerbsNetwork::post_part(Peer& peer, Operation& operation, ibv_send_wr& request) noexcept {
  request.wr_id = reinterpret_cast<std::uint64_t>(&operation);
  request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(peer.id->qp, &request, &bad) != 0) {
    operation.status = Status::peer_lost(operation.target.peer, "the device refuses the operation");
    return false;
  }
  ++peer.taken;
  ++operation.parts;
  return true;
}

void VerbsNetwork::enqueue(Peer& peer, Operation& operation) noexcept {
  operation.queued = true;
  if (peer.first == nullptr) {
    peer.first = &operation;
    peer.waiting_since_ns = now_ns();
  } else {
    peer.last->next = &operation;
  }
  peer.last = &operation;
  if (!peer.listed) {
    peer.listed = true;
    blocked_.push_back(operation.target.peer);
  }
}

/// The operation is over: its status says how. It is in no queue, and the device has nothing of it.
void VerbsNetwork::end(Operation& operation) noexcept {
  const bool deliver =
      operation.status.ok() && operation.kind == Kind::get && operation.abandoned == nullptr;
  memory_.release(operation.memory, operation.local, operation.bytes, deliver);
  if (operation.completion != nullptr || !operation.status.ok()) {
    finished_.push_back({operation.completion, operation.status});
  }
  operation.copy.reset();
  operation.completion = operation.abandoned = nullptr;
  operation.next = free_;
  free_ = &operation;
  --pending_;
}

/// The device has completed one part, or given it up.
void VerbsNetwork::part_over(Operation& operation, bool good) noexcept {
  const std::int32_t rank = operation.target.peer;
  --peers_[static_cast<std::size_t>(rank)].taken;
  --operation.parts;
  if (!good) {
    if (operation.status.ok())
      operation.status = Status::peer_lost(rank, "the connection is broken");
    break_link(rank);
  }
  if (operation.parts == 0 && !operation.queued) end(operation);
}

// ---- progress
// ------------------------------------------------------------------------------------

bool VerbsNetwork::read_queue() noexcept {
  constexpr int kBatch = 16;
  bool any = false;
  for (;;) {
    ibv_wc entries[kBatch];
    const int count = ibv_poll_cq(queue_, kBatch, entries);
    if (count <= 0) return any;
    any = true;
    int received = 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& entry = entries[i];
      const bool good = entry.status == IBV_WC_SUCCESS;
      if (entry.wr_id != kReceiveId) {
        part_over(*reinterpret_cast<Operation*>(entry.wr_id), good);
        continue;
      }
      ++received;
      const std::uint32_t word =
          good && (entry.wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(entry.imm_data) : kArrival;
      if ((word & kArrival) == 0) notices_.push_back(word);
    }
    if (!post_receives(receives_, received)) return any;
  }
}

void VerbsNetwork::fail_queue(Peer& peer, std::int32_t rank, const char* why) noexcept {
  while (peer.first != nullptr) {
    Operation& operation = *peer.first;
    peer.first = operation.next;
    operation.queued = false;
    if (operation.status.ok()) operation.status = Status::peer_lost(rank, why);
    if (operation.parts == 0) end(operation);
  }
}

/// Posts what waits for `peer`. False when something still waits.
bool VerbsNetwork::retry(Peer& peer, std::int32_t rank) noexcept {
  while (peer.first != nullptr) {
    Operation& operation = *peer.first;
    const Posted posted = post(peer, operation);
    if (posted == Posted::later) {
      if (peer.link == Link::ready || now_ns() - peer.waiting_since_ns < timeout_ns_) return false;
      break_link(rank);  // it was never reached
      return true;
    }
    peer.first = operation.next;
    operation.next = nullptr;
    operation.queued = false;
    if (posted == Posted::failed && operation.parts == 0) end(operation);
  }
  return true;
}

void VerbsNetwork::retry_all() noexcept {
  std::erase_if(blocked_, [this](std::int32_t rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!retry(peer, rank)) return false;
    peer.listed = false;
    return true;
  });
}

bool VerbsNetwork::progress(bool wait) noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;
  }
  if (domain_ == nullptr) return false;
  const std::size_t before = finished_.size();
  bool any = read_queue();
  any |= handle_events(wait);
  if (!blocked_.empty()) retry_all();
  return any || finished_.size() != before;
}

std::size_t VerbsNetwork::finished(NetworkFinished* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, finished_.size());
  std::copy_n(finished_.begin(), count, out);
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t VerbsNetwork::notices(std::uint32_t* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, notices_.size());
  std::copy_n(notices_.begin(), count, out);
  notices_.erase(notices_.begin(), notices_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t VerbsNetwork::forget(Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  for (NetworkFinished& over : finished_) {
    if (over.completion == completion) over.completion = nullptr;
  }
  std::size_t reads = 0;
  for (const auto& operation : operations_) {
    if (operation->completion == completion) {
      operation->completion = nullptr;
      operation->abandoned = completion;
    }
    // A read through a block of this network's own writes to no memory of the caller's any more.
    if (operation->abandoned == completion && operation->kind == Kind::get &&
        operation->memory.block < 0)
      ++reads;
  }
  return reads;
}

std::size_t VerbsNetwork::pending() noexcept {
  const std::lock_guard lock(mutex_);
  return pending_;
}

void VerbsNetwork::drop(std::int32_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  if (domain_ != nullptr) break_link(rank);
}

/// Asks for an event first and looks then, so that nothing falls between.
bool VerbsNetwork::may_sleep() noexcept {
  const std::lock_guard lock(mutex_);
  if (domain_ == nullptr) return false;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned count = 0;
  while (ibv_get_cq_event(channel_, &queue, &context) == 0) ++count;
  if (count != 0) ibv_ack_cq_events(queue_, count);
  return ibv_req_notify_cq(queue_, 0) == 0 && !read_queue();
}

bool VerbsNetwork::blocked() noexcept {
  const std::lock_guard lock(mutex_);
  return !blocked_.empty();
}

NetworkUse VerbsNetwork::use() noexcept {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace tutti::verbs
