#include "fabric/ofi/ofi.hpp"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/log.hpp"

namespace tutti::ofi {
namespace {

constexpr std::uint32_t kArrival =
    0x8000'0000;  // remote data of a write with a counter; others are notices
constexpr std::uint64_t kDoubt = 200'000'000;  // ns after which a peer that takes nothing is asked
constexpr std::uint64_t kReconnect =
    1'000'000'000;  // ns that a peer that was reached before may refuse

std::uint64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Status refusal(std::int32_t peer, int error) noexcept {
  return error == -FI_ENOMEM
             ? Status::error(
                   Code::no_memory,
                   "memory cannot be registered: raise the limit of locked memory (ulimit -l)")
             : Status::peer_lost(peer, "the network refuses the operation");
}

}  // namespace

Status OfiNetwork::meet(const NetworkAddress* all, int size, int rank,
                        const Secret& secret) noexcept {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  notice_key_ = prove(secret, "notices", nullptr, 0);
  addresses_.assign(all, all + size);
  peers_.resize(static_cast<std::size_t>(size));
  return Status::success();
}

Status OfiNetwork::expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept {
  const std::lock_guard lock(mutex_);
  if (domain_ == nullptr) return Status::error(Code::internal, "the network is closed");
  Registration region;
  const int error = registrar_.add_for_peers(base, bytes, &region);
  if (error == -FI_ENOMEM) return Status::error(Code::no_memory, "memory cannot be registered");
  if (error != 0)
    return Status::error(Code::not_permitted, "the network refuses to register memory");
  if (!memory_.know(base, region)) {
    registrar_.remove(region);
    return Status::error(Code::no_memory, "out of memory");
  }
  out->handle = reinterpret_cast<std::uint64_t>(region.region);
  out->address = virtual_addresses_ ? reinterpret_cast<std::uint64_t>(base) : 0;
  out->key = fi_mr_key(static_cast<fid_mr*>(region.region));
  use_.registered += bytes;
  return Status::success();
}

void OfiNetwork::withdraw(const NetworkMemory& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (memory.handle == 0) return;
  use_.registered -= memory_.forget(reinterpret_cast<const void*>(memory.handle));
}

// ---- operations
// ----------------------------------------------------------------------------------

/// More operations. Counters are written out of them, so they are registered where sources must be.
bool OfiNetwork::add_slab() noexcept {
  Slab slab;
  slab.operations.reset(new (std::nothrow) Operation[Slab::kOperations]{});
  if (!slab.operations) return false;
  if (registers_sources_ &&
      !registrar_.add(slab.operations.get(), sizeof(Operation) * Slab::kOperations, false,
                      &slab.registration))
    return false;
  for (std::size_t i = 0; i < Slab::kOperations; ++i) {
    Operation& operation = slab.operations[i];
    operation.descriptor = slab.registration.token;
    operation.next = free_;
    free_ = &operation;
  }
  slabs_.push_back(std::move(slab));
  return true;
}

OfiNetwork::Operation* OfiNetwork::make(Kind kind, const NetworkTarget& target,
                                        Completion* completion) noexcept {
  if (free_ == nullptr && !add_slab()) return nullptr;
  Operation* operation = free_;
  free_ = operation->next;
  operation->next = nullptr;
  operation->completion = completion;
  operation->abandoned = nullptr;
  operation->local = nullptr;
  operation->bytes = 0;
  operation->target = target;
  operation->value = 0;
  operation->kind = kind;
  operation->counts = false;
  operation->data_sent = false;
  operation->parts = 0;
  operation->status = Status::success();
  return operation;
}

Status OfiNetwork::find_peer(std::int32_t peer) noexcept {
  Peer& place = peers_[static_cast<std::size_t>(peer)];
  if (place.address != FI_ADDR_UNSPEC) return Status::success();
  const NetworkAddress& address = addresses_[static_cast<std::size_t>(peer)];
  fi_addr_t found = FI_ADDR_UNSPEC;
  if (fi_av_insert(vector_, address.data, 1, &found, 0, nullptr) != 1) {
    return Status::peer_lost(peer, "the network does not accept its address");
  }
  place.address = found;
  ++use_.connections;
  return Status::success();
}

Status OfiNetwork::submit(Operation& operation) noexcept {
  const std::int32_t rank = operation.target.peer;
  Status status = endpoint_ == nullptr ? Status::error(Code::internal, "the network is closed")
                                       : find_peer(rank);
  if (status.ok()) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const int error = peer.first != nullptr ? -FI_EAGAIN : post(operation);
    if (error == 0) {
      ++pending_;
      return Status::success();
    }
    if (error == -FI_EAGAIN || error == -FI_EBUSY) {
      ++pending_;
      enqueue(peer, operation);
      return Status::success();
    }
    status = refusal(rank, error);
    if (operation.parts != 0) {  // its data is on the way: it is over when that is
      operation.status = status;
      ++pending_;
      return Status::success();
    }
  }
  memory_.release(operation.memory, operation.local, operation.bytes, false);
  operation.copy.reset();
  operation.next = free_;
  free_ = &operation;
  return status;
}

Status OfiNetwork::put(const NetworkTarget& target, const void* source, std::size_t bytes,
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

Status OfiNetwork::get(const NetworkTarget& source, void* destination, std::size_t bytes,
                       Completion* completion) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::get, source, completion);
  if (operation == nullptr) return Status::error(Code::no_memory, "out of memory");
  operation->local = static_cast<std::byte*>(destination);
  operation->bytes = bytes;
  return submit(*operation);
}

Status OfiNetwork::notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* operation = make(Kind::notice, anywhere, nullptr);
  if (operation == nullptr) return Status::error(Code::no_memory, "out of memory");
  operation->value = notice & ~kArrival;
  return submit(*operation);
}

/// How the provider reaches the data of an operation. 0, -FI_EBUSY while all blocks are in use, or
/// -FI_ENOMEM.
int OfiNetwork::find_memory(Operation& operation) noexcept {
  if (operation.bytes == 0 || operation.memory.address != nullptr) return 0;
  if (!registers_sources_) {
    operation.memory.address = operation.local;
    return 0;
  }
  switch (memory_.acquire(operation.local, operation.bytes, operation.kind == Kind::get,
                          &operation.memory)) {
    case LocalMemory::Answer::ready:
      return 0;
    case LocalMemory::Answer::later:
      return -FI_EBUSY;
    case LocalMemory::Answer::refused:
      break;
  }
  return -FI_ENOMEM;
}

/// 0, -FI_EAGAIN or -FI_EBUSY if it must be tried again, or another error. Parts that the provider
/// has taken are not posted again.
int OfiNetwork::post(Operation& operation) noexcept {
  if (const int error = find_memory(operation); error != 0) return error;
  const fi_addr_t to = peers_[static_cast<std::size_t>(operation.target.peer)].address;
  ssize_t error = 0;
  switch (operation.kind) {
    case Kind::put:
      return post_write(operation, to);
    case Kind::get:
      error = fi_read(endpoint_, operation.memory.address, operation.bytes,
                      reinterpret_cast<void*>(operation.memory.token), to, operation.target.address,
                      operation.target.key, &operation.context);
      break;
    case Kind::notice:
      error = fi_writedata(endpoint_, &operation.value, 0,
                           reinterpret_cast<void*>(operation.descriptor),
                           sealed_notice(operation.target.peer, operation.value), to,
                           operation.target.address, operation.target.key, &operation.context);
      break;
  }
  if (error == 0) ++operation.parts;
  return static_cast<int>(error);
}

int OfiNetwork::post_write(Operation& operation, fi_addr_t to) noexcept {
  const bool data = operation.bytes != 0 && !operation.data_sent;
  if (data && operation.counts && !one_write_) {
    if (const int error = post_message(operation, to, true, false); error != 0) return error;
    operation.data_sent = true;
    return post_message(operation, to, false, true);
  }
  return post_message(operation, to, data, operation.counts);
}

int OfiNetwork::post_message(Operation& operation, fi_addr_t to, bool data, bool counter) noexcept {
  iovec local[2];
  void* descriptors[2];
  fi_rma_iov remote[2];
  std::size_t parts = 0;
  if (data) {
    local[parts] = {operation.memory.address, operation.bytes};
    descriptors[parts] = reinterpret_cast<void*>(operation.memory.token);
    remote[parts++] = {operation.target.address, operation.bytes, operation.target.key};
  }
  if (counter) {
    local[parts] = {&operation.value, sizeof operation.value};
    descriptors[parts] = reinterpret_cast<void*>(operation.descriptor);
    remote[parts++] = {operation.counter.address, sizeof operation.value, operation.counter.key};
  }
  fi_msg_rma message{};
  message.msg_iov = local;
  message.desc = registers_sources_ ? descriptors : nullptr;
  message.iov_count = parts;
  message.addr = to;
  message.rma_iov = remote;
  message.rma_iov_count = parts;
  message.context = &operation.context;
  message.data = kArrival;
  const auto error = static_cast<int>(
      fi_writemsg(endpoint_, &message, FI_COMPLETION | (counter ? FI_REMOTE_CQ_DATA : 0)));
  if (error == 0) ++operation.parts;
  return error;
}

void OfiNetwork::enqueue(Peer& peer, Operation& operation) noexcept {
  if (peer.first == nullptr) {
    peer.first = &operation;
    peer.blocked_since_ns = now_ns();
  } else {
    peer.last->next = &operation;
  }
  peer.last = &operation;
  if (!peer.listed) {
    peer.listed = true;
    blocked_.push_back(operation.target.peer);
  }
}

void OfiNetwork::end(Operation& operation, Status status) noexcept {
  if (status.ok()) peers_[static_cast<std::size_t>(operation.target.peer)].reached = true;
  const bool deliver = status.ok() && operation.kind == Kind::get && operation.abandoned == nullptr;
  memory_.release(operation.memory, operation.local, operation.bytes, deliver);
  if (operation.completion != nullptr || !status.ok())
    finished_.push_back({operation.completion, status});
  operation.copy.reset();
  operation.completion = operation.abandoned = nullptr;
  operation.next = free_;
  free_ = &operation;
  --pending_;
}

/// Of an operation that is not in a queue any more, one part is over.
void OfiNetwork::part_over(Operation& operation, Status status) noexcept {
  if (!status.ok()) operation.status = status;
  if (--operation.parts != 0) return;
  Peer& peer = peers_[static_cast<std::size_t>(operation.target.peer)];
  if (peer.first == &operation) {  // its counter is still to be taken
    if (operation.status.ok()) return;
    peer.first = operation.next;
  }
  end(operation, operation.status);
}

// ---- progress
// ------------------------------------------------------------------------------------

bool OfiNetwork::read_errors() noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_, &entry, 0) < 0 || entry.op_context == nullptr) return false;
  auto& operation = *static_cast<Operation*>(entry.op_context);
  part_over(operation, Status::peer_lost(operation.target.peer, "the connection is broken"));
  return true;
}

/// A notice needs no key of any memory, and whoever reaches the port can send one: it carries a tag
/// that only ranks of the job can make, where the provider has room for it.
std::uint64_t OfiNetwork::sealed_notice(std::int32_t to, std::uint64_t notice) const noexcept {
  if (!tags_notices_) return notice;
  const std::uint64_t message[2] = {static_cast<std::uint64_t>(to), notice};
  return static_cast<std::uint64_t>(tag_of(notice_key_, message, sizeof message)) << 32 | notice;
}

void OfiNetwork::take_notice(std::uint64_t data) noexcept {
  const auto notice = static_cast<std::uint32_t>(data);
  if (!tags_notices_ || data == sealed_notice(rank_, notice)) {
    notices_.push_back(notice);
  } else if (forged_++ == 0) {
    log(LogLevel::debug, "a stranger has sent a notice over %s: it is dropped, and so are others",
        name_.c_str());
  }
}

bool OfiNetwork::read_queue() noexcept {
  constexpr std::size_t kBatch = 16;
  bool any = false;
  for (;;) {
    fi_cq_data_entry entries[kBatch];
    const ssize_t count = fi_cq_read(queue_, entries, kBatch);
    if (count == -FI_EAVAIL) {
      if (!read_errors()) return any;
      any = true;
      continue;
    }
    if (count <= 0) return any;
    any = true;
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) {
        if ((entry.data & kArrival) == 0) take_notice(entry.data);
      } else if (entry.op_context != nullptr) {
        part_over(*static_cast<Operation*>(entry.op_context), Status::success());
      }
    }
  }
}

/// Whether a peer that takes nothing is waited for: one that is stopped takes nothing either.
bool OfiNetwork::patient(const Peer& peer, std::int32_t rank, std::uint64_t now) const noexcept {
  const std::uint64_t blocked = now - peer.blocked_since_ns;
  if (health_ != nullptr && blocked > kDoubt) {
    const PeerHealth::Verdict verdict = health_->ask(rank, now);
    if (verdict == PeerHealth::Verdict::stands) return true;
    if (verdict == PeerHealth::Verdict::gone) return false;
  }
  return blocked < (peer.reached ? std::min(kReconnect, timeout_ns_) : timeout_ns_);
}

bool OfiNetwork::listens_at(const NetworkAddress& address, sockaddr_storage* out) const noexcept {
  if (bypasses_kernel() || address.bytes < sizeof(sa_family_t)) return false;
  sockaddr_storage found{};
  std::memcpy(&found, address.data, std::min(sizeof found, NetworkAddress::kBytes));
  if (found.ss_family != AF_INET && found.ss_family != AF_INET6) return false;
  *out = found;
  return true;
}

/// Posts what waits for `peer`. False when something still waits.
bool OfiNetwork::retry(Peer& peer, std::int32_t rank, std::uint64_t now) noexcept {
  while (peer.first != nullptr) {
    Operation& operation = *peer.first;
    const int error = post(operation);
    if (error == -FI_EBUSY) {  // not the peer's fault
      peer.blocked_since_ns = now;
      return false;
    }
    if (error == -FI_EAGAIN && patient(peer, rank, now)) return false;
    peer.first = operation.next;
    operation.next = nullptr;
    peer.blocked_since_ns = now;
    if (error == 0) continue;
    // What waits behind it fails with it.
    peer.blocked_since_ns = now - timeout_ns_;
    operation.status = error == -FI_ENOMEM ? refusal(rank, error)
                                           : Status::peer_lost(rank, "the connection is broken");
    if (operation.parts == 0) end(operation, operation.status);
  }
  return true;
}

void OfiNetwork::retry() noexcept {
  if (blocked_.empty()) return;
  const std::uint64_t now = now_ns();
  std::erase_if(blocked_, [&](std::int32_t rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!retry(peer, rank, now)) return false;
    peer.listed = false;
    return true;
  });
}

bool OfiNetwork::progress(bool wait) noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;
  }
  if (queue_ == nullptr) return false;
  const std::size_t before = finished_.size();
  const bool any = read_queue();
  retry();
  return any || finished_.size() != before;
}

std::size_t OfiNetwork::finished(NetworkFinished* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, finished_.size());
  std::copy_n(finished_.begin(), count, out);
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t OfiNetwork::notices(std::uint32_t* out, std::size_t most) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(most, notices_.size());
  std::copy_n(notices_.begin(), count, out);
  notices_.erase(notices_.begin(), notices_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t OfiNetwork::forget(Completion* completion) noexcept {
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
      // A read through a block writes to no memory of the caller's any more.
      if (operation.abandoned == completion && operation.kind == Kind::get &&
          operation.memory.block < 0)
        ++reads;
    }
  }
  return reads;
}

std::size_t OfiNetwork::pending() noexcept {
  const std::lock_guard lock(mutex_);
  return pending_;
}

void OfiNetwork::drop(std::int32_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  while (peer.first != nullptr) {
    Operation& operation = *peer.first;
    peer.first = operation.next;
    operation.status = Status::peer_lost(rank, "the peer is lost");
    if (operation.parts == 0) end(operation, operation.status);
  }
}

bool OfiNetwork::may_sleep() noexcept {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return false;
  fid* objects[] = {&queue_->fid};
  return fi_trywait(fabric_, objects, 1) == 0;
}

bool OfiNetwork::blocked() noexcept {
  const std::lock_guard lock(mutex_);
  return !blocked_.empty();
}

NetworkUse OfiNetwork::use() noexcept {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace tutti::ofi
