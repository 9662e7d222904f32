#include "fabric/shm/shm.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <string>

#include "base/copy.hpp"
#include "base/copy.hpp"
#include "base/cores.hpp"
#include "base/log.hpp"

namespace tutti::shm {
namespace {

// Kinds of memory in Key::words[0]; words[1] is an offset or an address, words[2] the length,
// words[3] the owner's rank.
constexpr std::uint64_t kArenaKey = 0x6172656e61;
constexpr std::uint64_t kUserKey = 0x75736572;

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

/// Registers for the barrier that sleepers run on the signallers' behalf; false where it is missing.
bool register_barrier() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void finished(Completion* completion) noexcept {
  if (completion == nullptr) return;
  ++completion->posted;
  completion->finished.store(completion->finished.load(std::memory_order_relaxed) + 1,
                             std::memory_order_release);
}

}  // namespace

ShmFabric::~ShmFabric() {
  if (slot_ != nullptr) leave();
}

void ShmFabric::leave() noexcept {
  slot_->left.store(1, std::memory_order_release);
  if (segment_->header().sleepers.load(std::memory_order_seq_cst) == 0) return;
  for (const std::int32_t peer : neighbours_) ring(peer);
}

void ShmFabric::attach_segment(std::shared_ptr<Segment> segment, int local) noexcept {
  segment_ = std::move(segment);
  local_ = local;
  slot_ = &segment_->slot(local);
  slot_->pid.store(getpid(), std::memory_order_relaxed);
  slot_->start_time.store(process_start_time(getpid()), std::memory_order_relaxed);
  traits_.name = "shm";
  traits_.ordered_tail = true;
  asymmetric_ = register_barrier();
  fence_before_ring_ = !asymmetric_;
  sleepers_ = &segment_->header().sleepers;
  arena_.base = segment_->arena(local);
  arena_.bytes = segment_->arena_bytes();
  arena_.key = Key{{kArenaKey, 0, arena_.bytes, static_cast<std::uint64_t>(rank_)}};
}

Status ShmFabric::create_threads(int ranks, const Settings& settings,
                                 std::vector<std::unique_ptr<ShmFabric>>* out) {
  std::unique_ptr<Segment> created;
  std::string message;
  const Status status = Segment::create(settings.segment, ranks, settings.arena, &created, &message);
  if (!status.ok()) {
    if (!message.empty()) log(LogLevel::error, "%s", message.c_str());
    return status;
  }
  const std::shared_ptr<Segment> segment = std::move(created);
  std::vector<std::unique_ptr<ShmFabric>> fabrics;
  for (int rank = 0; rank < ranks; ++rank) {
    std::unique_ptr<ShmFabric> fabric(new (std::nothrow) ShmFabric(rank, ranks));
    if (!fabric) return Status::error(Code::no_memory, "out of memory");
    fabric->threads_ = true;
    fabric->node_cores_ = available_cores();
    for (int peer = 0; peer < ranks; ++peer) {
      fabric->neighbours_.push_back(peer);
      fabric->local_of_.push_back(peer);
    }
    fabric->attach_segment(segment, rank);
    fabric->traits_.user_memory = settings.cma != Switch::off;
    fabrics.push_back(std::move(fabric));
  }
  *out = std::move(fabrics);
  return Status::success();
}

Status ShmFabric::expose(void* base, std::size_t bytes, Region* out) noexcept {
  const auto* start = static_cast<const std::byte*>(base);
  const auto* arena = static_cast<const std::byte*>(arena_.base);
  Region region{base, bytes, 0, {}};
  if (start >= arena && start + bytes <= arena + arena_.bytes) {
    region.key = Key{{kArenaKey, static_cast<std::uint64_t>(start - arena), bytes,
                      static_cast<std::uint64_t>(rank_)}};
  } else if (traits_.user_memory) {
    region.key = Key{{kUserKey, reinterpret_cast<std::uint64_t>(base), bytes,
                      static_cast<std::uint64_t>(rank_)}};
  } else {
    return Status::error(Code::not_permitted, "cross-memory attach is not permitted");
  }
  *out = region;
  return Status::success();
}

void ShmFabric::withdraw(Region& region) noexcept { region = Region{}; }

Status ShmFabric::arena_of(std::int32_t peer, Remote* out) noexcept {
  const int local = local_index(peer);
  if (local < 0) return Status::error(Code::unsupported, "the peer is on another node");
  Remote remote;
  remote.peer = peer;
  remote.bytes = segment_->arena_bytes();
  remote.mapped = segment_->arena(local);
  remote.key = Key{{kArenaKey, 0, remote.bytes, static_cast<std::uint64_t>(peer)}};
  *out = remote;
  return Status::success();
}

Status ShmFabric::reserve(std::size_t offset, std::size_t bytes) noexcept {
  return segment_->reserve(local_, offset, bytes);
}

Status ShmFabric::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  const int local = local_index(peer);
  if (local < 0) return Status::error(Code::unsupported, "the peer is on another node");
  const std::uint64_t start = key.words[1];
  const std::uint64_t bytes = key.words[2];
  if (key.words[3] != static_cast<std::uint64_t>(peer)) {
    return Status::error(Code::invalid_argument, "the key belongs to another rank");
  }
  Remote remote;
  remote.peer = peer;
  remote.bytes = bytes;
  remote.key = key;
  if (key.words[0] == kArenaKey) {
    const std::size_t limit = segment_->arena_bytes();
    if (start > limit || bytes > limit - start) return Status::error(Code::truncated, "key outside the arena");
    remote.mapped = segment_->arena(local) + start;
  } else if (key.words[0] == kUserKey) {
    if (bytes > ~std::uint64_t{0} - start) return Status::error(Code::truncated, "key wraps around");
    if (!traits_.user_memory) return Status::error(Code::not_permitted, "cross-memory attach is not permitted");
    remote.handle = start;
    if (threads_ || peer == rank_) remote.mapped = reinterpret_cast<void*>(start);
  } else {
    return Status::error(Code::invalid_argument, "not a key of shared memory");
  }
  *out = remote;
  return Status::success();
}

Status ShmFabric::check_range(const Remote& remote, std::size_t offset, std::size_t bytes) const noexcept {
  if (offset > remote.bytes || bytes > remote.bytes - offset) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  if (segment_->slot(local_index(remote.peer)).left.load(std::memory_order_relaxed) != 0) {
    return Status::peer_lost(remote.peer, "the process has ended");
  }
  return Status::success();
}

Status ShmFabric::put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
                      const Tail* tail, Completion* completion) noexcept {
  TUTTI_TRY(check_range(target, offset, bytes));
  if (tail != nullptr) {
    TUTTI_TRY(check_range(target, tail->offset, sizeof(Word)));
    if (tail->offset % sizeof(Word) != 0) return Status::error(Code::invalid_argument, "unaligned tail");
  }
  if (target.mapped == nullptr) {
    const std::int32_t pid = segment_->slot(local_index(target.peer)).pid.load(std::memory_order_relaxed);
    auto* there = reinterpret_cast<char*>(target.handle);
    if (bytes != 0) TUTTI_TRY(cma_write(pid, there + offset, source, bytes));
    // The kernel copies the counter by itself after the data: two system calls keep their order.
    if (tail != nullptr) TUTTI_TRY(cma_write(pid, there + tail->offset, &tail->value, sizeof tail->value));
  } else {
    auto* there = static_cast<std::byte*>(target.mapped);
    copy_bytes(there + offset, source, bytes);
    if (tail != nullptr) {
      reinterpret_cast<Word*>(there + tail->offset)->store(tail->value, std::memory_order_release);
    }
  }
  if (tail != nullptr && sleepers()) ring(target.peer);
  finished(completion);
  return Status::success();
}

Status ShmFabric::get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
                      Completion* completion) noexcept {
  if (offset > source.bytes || bytes > source.bytes - offset) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  if (source.mapped != nullptr) {
    copy_bytes(destination, static_cast<const std::byte*>(source.mapped) + offset, bytes);
  } else if (bytes != 0) {
    const std::int32_t pid = segment_->slot(local_index(source.peer)).pid.load(std::memory_order_relaxed);
    Status status =
        cma_read(pid, reinterpret_cast<const char*>(source.handle) + offset, destination, bytes);
    if (status.code == Code::peer_lost) status.peer = source.peer;
    TUTTI_TRY(status);
  }
  finished(completion);
  return Status::success();
}

void ShmFabric::ring(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  if (local < 0) return;
  NodeSlot& slot = segment_->slot(local);
  if (slot.armed.load(std::memory_order_relaxed) == 0) return;
  slot.bell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &slot.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t ShmFabric::arm() noexcept {
  const std::uint32_t ticket = slot_->bell.load(std::memory_order_relaxed);
  slot_->armed.fetch_add(1, std::memory_order_seq_cst);
  segment_->header().sleepers.fetch_add(1, std::memory_order_seq_cst);
  // A signaller stores its word and then loads `sleepers` without a fence; the barrier here makes one
  // of the two sides see the other (Dekker), at the sleeper's cost.
  if (asymmetric_) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
  return ticket;
}

void ShmFabric::sleep(std::uint32_t ticket, std::uint64_t timeout_ns) noexcept {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, &slot_->bell, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
}

void ShmFabric::disarm() noexcept {
  segment_->header().sleepers.fetch_sub(1, std::memory_order_relaxed);
  slot_->armed.fetch_sub(1, std::memory_order_relaxed);
}

bool ShmFabric::alive(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  if (local < 0) return true;
  NodeSlot& slot = segment_->slot(local);
  if (slot.left.load(std::memory_order_acquire) != 0) return false;
  if (threads_ || peer == rank_) return true;
  const std::int32_t pid = slot.pid.load(std::memory_order_relaxed);
  // A zombie still answers kill(pid, 0); its pidfd is readable.
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return errno != ESRCH;
  pollfd entry{descriptor, POLLIN, 0};
  const bool ended = poll(&entry, 1, 0) > 0;
  close(descriptor);
  if (!ended && process_start_time(pid) == slot.start_time.load(std::memory_order_relaxed)) return true;
  slot.left.store(1, std::memory_order_release);  // so that everybody's next operation fails at once
  return false;
}

std::uint64_t ShmFabric::now_ns() const noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tutti::shm
