#include "fabric/shm/shm.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <string>

#include "base/copy.hpp"
#include "base/cores.hpp"
#include "base/cpu.hpp"
#include "base/log.hpp"
#include "fabric/key.hpp"
#include "topo/topo.hpp"

namespace tutti::shm {
namespace {

Key make_key(std::uint32_t kind, std::uint64_t start, std::size_t bytes,
             std::int32_t owner) noexcept {
  return seal_key(kind, start, bytes, static_cast<std::uint64_t>(owner));
}

constexpr std::uint64_t kOften = 500'000;    // ns from one sleep to the next
constexpr std::uint32_t kSleepsInRow = 8;    // such ones
constexpr std::uint64_t kEveryTeam = 0x100;  // in BreakageRecord::what

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

/// False when the process `pid` that started at `start_time` (0: unknown) has ended.
bool running(std::int32_t pid, std::uint64_t start_time) noexcept {
  // A zombie still answers kill(pid, 0); its pidfd is readable.
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    if (errno == ESRCH) return false;
    // Out of descriptors, or too old a kernel. Reading at address 0 is refused in any case; that a
    // dead process has no memory any more is said first.
    char byte;
    const iovec here{&byte, 1}, there{nullptr, 1};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != ESRCH;
  }
  pollfd entry{descriptor, POLLIN, 0};
  const bool ended = poll(&entry, 1, 0) > 0;
  close(descriptor);
  if (ended) return false;
  const std::uint64_t now = process_start_time(pid);  // another one: the number was given out again
  return now == 0 || start_time == 0 || now == start_time;
}

void finished(Completion* completion) noexcept {
  if (completion == nullptr) return;
  completion->post();
  completion->finish(Status::success());
}

}  // namespace

bool register_barrier() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
         membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

ShmFabric::~ShmFabric() {
  if (slot_ != nullptr && slot_->gone.load(std::memory_order_relaxed) == 0) go(kLeft);
}

void ShmFabric::go(std::uint32_t how) noexcept {
  stays_awake();
  slot_->gone.store(how, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // a sleeper's is in arm()
  if (segment_->header().sleepers.load(std::memory_order_relaxed) == 0) return;
  for (const std::int32_t peer : neighbours_) wake(peer, Event::solicited);
}

void ShmFabric::attach_segment(std::shared_ptr<Segment> segment, int local) noexcept {
  segment_ = std::move(segment);
  local_ = local;
  slot_ = &segment_->slot(local);
  slot_->pid.store(getpid(), std::memory_order_relaxed);
  slot_->start_time.store(process_start_time(getpid()), std::memory_order_relaxed);
  traits_.name = "shm";
  traits_.ordered_tail = true;
  traits_.selective_events = true;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    traits_.core_cache = core_cache_bytes(set_of(allowed));
  traits_.keeps_evicted = keeps_evicted_lines();
  traits_.demotes = can_demote();
  sleepers_ = &segment_->header().sleepers;
  breakages_ = &segment_->header().breakages;
  arena_.base = segment_->arena(local);
  arena_.bytes = segment_->arena_bytes();
  arena_.key = make_key(kArenaKey, 0, arena_.bytes, rank_);
}

Status ShmFabric::create_threads(int ranks, const Settings& settings,
                                 std::vector<std::unique_ptr<ShmFabric>>* out) {
  MadeUpMachine made_up;
  TUTTI_TRY(MadeUpMachine::parse(settings.topology, &made_up));
  std::unique_ptr<Segment> created;
  std::string message;
  const Status status =
      Segment::create(settings.segment, ranks, settings.arena, &created, &message);
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
    fabric->machine_ranks_ = ranks;
    fabric->traits_.scarce = ranks > fabric->node_cores_;
    for (int peer = 0; peer < ranks; ++peer) {
      fabric->neighbours_.push_back(peer);
      fabric->localities_.push_back(settings.topology.empty() ? Locality{}
                                                              : made_up.locality_of(peer));
      fabric->local_of_.push_back(peer);
    }
    fabric->attach_segment(segment, rank);
    fabric->use_barrier(register_barrier());
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
  if (start >= arena && start <= arena + arena_.bytes &&
      bytes <= static_cast<std::size_t>(arena + arena_.bytes - start)) {
    region.key = make_key(kArenaKey, static_cast<std::uint64_t>(start - arena), bytes, rank_);
  } else if (bytes > ~std::uint64_t{0} - reinterpret_cast<std::uint64_t>(base)) {
    return Status::error(Code::invalid_argument, "the memory wraps around");
  } else if (traits_.user_memory || bytes == 0) {
    region.key = make_key(kUserKey, reinterpret_cast<std::uint64_t>(base), bytes, rank_);
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
  remote.key = make_key(kArenaKey, 0, remote.bytes, peer);
  *out = remote;
  return Status::success();
}

Status ShmFabric::reserve(std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0 && offset <= arena_.bytes) return Status::success();
  return segment_->reserve(local_, offset, bytes);
}

Status ShmFabric::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  const int local = local_index(peer);
  if (local < 0) return Status::error(Code::unsupported, "the peer is on another node");
  const std::uint64_t start = key.words[1];
  const std::uint64_t bytes = key.words[2];
  const std::uint32_t kind = key_kind(key);
  if (kind != kArenaKey && kind != kUserKey) {
    return Status::error(Code::invalid_argument, "not a key of shared memory");
  }
  if (key.words[3] != static_cast<std::uint64_t>(peer)) {
    return Status::error(Code::invalid_argument, "the key belongs to another rank");
  }
  TUTTI_TRY(check_present(peer));
  Remote remote;
  remote.peer = peer;
  remote.bytes = bytes;
  remote.key = key;
  if (kind == kArenaKey) {
    const std::size_t limit = segment_->arena_bytes();
    if (start > limit || bytes > limit - start)
      return Status::error(Code::truncated, "key outside the arena");
    remote.mapped = segment_->arena(local) + start;
  } else {
    if (bytes > ~std::uint64_t{0} - start)
      return Status::error(Code::truncated, "key wraps around");
    if (!traits_.user_memory && bytes != 0)
      return Status::error(Code::not_permitted, "cross-memory attach is not permitted");
    remote.handle = start;
    if (threads_ || peer == rank_) remote.mapped = reinterpret_cast<void*>(start);
  }
  *out = remote;
  return Status::success();
}

Status ShmFabric::check_present(std::int32_t peer) const noexcept {
  if (segment_->slot(local_index(peer)).gone.load(std::memory_order_relaxed) != 0) {
    return Status::peer_lost(peer, "the process has ended");
  }
  return Status::success();
}

Status ShmFabric::check_range(const Remote& remote, std::size_t offset,
                              std::size_t bytes) const noexcept {
  if (local_index(remote.peer) < 0)
    return Status::error(Code::invalid_argument, "not a peer of this node");
  if (offset > remote.bytes || bytes > remote.bytes - offset) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  return check_present(remote.peer);
}

Status ShmFabric::cross(Status status, std::int32_t peer) noexcept {
  if (status.code == Code::peer_lost) {
    status.peer = peer;
    segment_->slot(local_index(peer)).gone.store(kDied, std::memory_order_release);
  }
  return status;
}

Status ShmFabric::put(const Remote& target, std::size_t offset, const void* source,
                      std::size_t bytes, const Tail* tail, Completion* completion,
                      Event event) noexcept {
  TUTTI_TRY(check_range(target, offset, bytes));
  if (tail != nullptr) {
    TUTTI_TRY(check_range(target, tail->offset, sizeof(Word)));
    if (tail->offset % sizeof(Word) != 0)
      return Status::error(Code::invalid_argument, "unaligned tail");
  }
  if (target.mapped == nullptr) {
    const std::int32_t pid =
        segment_->slot(local_index(target.peer)).pid.load(std::memory_order_relaxed);
    auto* there = reinterpret_cast<char*>(target.handle);
    if (bytes != 0) TUTTI_TRY(cross(cma_write(pid, there + offset, source, bytes), target.peer));
    if (tail != nullptr) {
      // The kernel copies with plain stores, and a system call is no barrier of memory.
      std::atomic_thread_fence(std::memory_order_release);
      TUTTI_TRY(cross(cma_write(pid, there + tail->offset, &tail->value, sizeof tail->value),
                      target.peer));
    }
  } else {
    auto* there = static_cast<std::byte*>(target.mapped);
    copy_bytes(there + offset, source, bytes);
    if (tail != nullptr) {
      reinterpret_cast<Word*>(there + tail->offset)->store(tail->value, std::memory_order_release);
    }
  }
  if (tail != nullptr && sleepers()) wake(target.peer, event);
  finished(completion);
  return Status::success();
}

Status ShmFabric::get(const Remote& source, std::size_t offset, void* destination,
                      std::size_t bytes, Completion* completion) noexcept {
  if (completion == nullptr)
    return Status::error(Code::invalid_argument, "a get needs a completion");
  TUTTI_TRY(check_range(source, offset, bytes));
  if (source.mapped != nullptr) {
    copy_bytes(destination, static_cast<const std::byte*>(source.mapped) + offset, bytes);
  } else if (bytes != 0) {
    const std::int32_t pid =
        segment_->slot(local_index(source.peer)).pid.load(std::memory_order_relaxed);
    const auto* there = reinterpret_cast<const char*>(source.handle);
    TUTTI_TRY(cross(cma_read(pid, there + offset, destination, bytes), source.peer));
  }
  finished(completion);
  return Status::success();
}

void ShmFabric::wake(std::int32_t peer, Event event) noexcept {
  const int local = local_index(peer);
  if (local < 0) return;
  NodeSlot& slot = segment_->slot(local);
  const auto& concerned = event == Event::solicited ? slot.armed : slot.attentive;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // as in sleepers(), which not all ask
  if (concerned.load(std::memory_order_relaxed) == 0) return;
  // Whoever watches has said so before it looks at the bell.
  slot.bell.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t watching = slot.watching.load(std::memory_order_seq_cst);
  if (watching != 0) {
    const std::uint64_t one = 1;
    static_cast<void>(!write(doorbells_[static_cast<std::size_t>(local)], &one, sizeof one));
  }
  if (slot.armed.load(std::memory_order_relaxed) > watching)
    syscall(SYS_futex, &slot.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ShmFabric::wake_reader(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  if (local < 0) return;
  const NodeSlot& slot = segment_->slot(local);
  if (slot.armed.load(std::memory_order_acquire) == 0) return;
  const std::uint32_t awaited = slot.awaited.load(std::memory_order_relaxed);
  const auto is = [awaited](std::int32_t whose) {
    return awaited == static_cast<std::uint32_t>(whose + 1);
  };
  if (is(kAnybody) || is(kNeighbours) || is(rank_)) wake(peer, Event::solicited);
}

void ShmFabric::wake_for_arrival(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  if (local < 0) return;
  const NodeSlot& slot = segment_->slot(local);
  if (slot.armed.load(std::memory_order_acquire) == 0) return;
  if (slot.awaited.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(kAnybody + 1))
    wake(peer, Event::solicited);
}

bool ShmFabric::watch_doorbell(std::uint32_t ticket) noexcept {
  if (slot_->watching.exchange(1, std::memory_order_seq_cst) != 0) return false;
  if (slot_->bell.load(std::memory_order_seq_cst) == ticket) return true;
  unwatch_doorbell();
  return false;
}

std::uint32_t ShmFabric::arm(Attention attention) noexcept {
  const std::uint32_t ticket = slot_->bell.load(std::memory_order_relaxed);
  slot_->armed.fetch_add(1, std::memory_order_seq_cst);
  if (attention == Attention::all) slot_->attentive.fetch_add(1, std::memory_order_seq_cst);
  announce_sleep();
  return ticket;
}

/// A signaller stores its word and then loads `sleepers` without a fence. The barrier here makes
/// one of the two sides see the other (Dekker), at the sleeper's cost; it interrupts all
/// processors. So whoever sleeps often remains counted: the signallers know from the first barrier
/// on that they have to look for sleepers, and look behind a fence.
void ShmFabric::announce_sleep() noexcept {
  Word& sleepers = segment_->header().sleepers;
  const bool remains = sleeps_often() && !counted_.exchange(true, std::memory_order_relaxed);
  sleepers.fetch_add(remains ? 2 : 1, std::memory_order_seq_cst);
  // Without the barrier the additions order words, but not what peers tell with fences of their own
  // (go, tell_broken).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Read after the addition: stays_awake() subtracts after it has changed it.
  if (adds_before_ring_ || known_.load(std::memory_order_seq_cst)) return;
  membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
  if (remains) known_.store(true, std::memory_order_seq_cst);
}

bool ShmFabric::sleeps_often() noexcept {
  const std::uint64_t now = now_ns();
  const bool soon = now - slept_ns_.exchange(now, std::memory_order_relaxed) < kOften;
  const std::uint32_t row = soon ? sleeps_in_row_.load(std::memory_order_relaxed) + 1 : 0;
  sleeps_in_row_.store(row, std::memory_order_relaxed);
  return row >= kSleepsInRow;
}

void ShmFabric::stays_awake() noexcept {
  if (!known_.exchange(false, std::memory_order_seq_cst)) return;
  counted_.store(false, std::memory_order_relaxed);
  segment_->header().sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void ShmFabric::sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention) noexcept {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, &slot_->bell, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
}

void ShmFabric::disarm(Attention attention) noexcept {
  segment_->header().sleepers.fetch_sub(1, std::memory_order_relaxed);
  if (attention == Attention::all) slot_->attentive.fetch_sub(1, std::memory_order_relaxed);
  slot_->armed.fetch_sub(1, std::memory_order_relaxed);
}

bool ShmFabric::alive(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  if (local < 0) return peer >= 0 && peer < size_;  // on another node: nothing is known of it
  NodeSlot& slot = segment_->slot(local);
  if (const std::uint32_t gone = slot.gone.load(std::memory_order_acquire); gone != 0)
    return gone == kLeft;
  if (threads_ || peer == rank_) return true;
  const std::int32_t pid = slot.pid.load(std::memory_order_relaxed);
  if (!shares_processes(peer)) {
    if (segment_->is_held(local)) return true;
  } else if (running(pid, slot.start_time.load(std::memory_order_relaxed))) {
    return true;
  }
  // It may have left in good order just before it ended. If not: everybody's next operation fails
  // at once.
  std::uint32_t present = 0;
  return !slot.gone.compare_exchange_strong(present, kDied, std::memory_order_acq_rel) &&
         present == kLeft;
}

void ShmFabric::tell_lost(std::int32_t peer) noexcept {
  NodeHeader& header = segment_->header();
  const std::uint32_t place = header.lost_count.fetch_add(1, std::memory_order_acq_rel);
  if (place < kLostPlaces) header.lost[place].store(peer + 1, std::memory_order_release);
}

bool ShmFabric::breakage(std::uint64_t number, Breakage* out) const noexcept {
  if (number >= kBreakagePlaces) {  // more than there is room for: whatever it was, it counts
    *out = Breakage{};
    out->every_team = true;
    return true;
  }
  const BreakageRecord& record = segment_->header().broken[number];
  const std::uint64_t what = record.what.load(std::memory_order_acquire);
  if (what == 0) return false;
  out->team[0] = record.team[0].load(std::memory_order_relaxed);
  out->team[1] = record.team[1].load(std::memory_order_relaxed);
  out->code = static_cast<Code>((what & 0xff) - 1);
  out->every_team = (what & kEveryTeam) != 0;
  out->teller = static_cast<std::int32_t>(what >> 9 & 0x7fffff) - 1;
  out->rank = static_cast<std::int32_t>(what >> 32) - 1;
  return true;
}

void ShmFabric::tell_broken(const Breakage& breakage, const std::int32_t*, int) noexcept {
  if (slot_->gone.load(std::memory_order_relaxed) != 0) return;  // the dead say nothing
  NodeHeader& header = segment_->header();
  const std::uint64_t known = header.breakages.load(std::memory_order_acquire);
  Breakage other;
  for (std::uint64_t i = 0; i < known && i < kBreakagePlaces; ++i) {
    if (this->breakage(i, &other) && !other.every_team && !breakage.every_team &&
        other.team[0] == breakage.team[0] && other.team[1] == breakage.team[1])
      return;
  }
  const std::uint64_t place = header.breakages.fetch_add(1, std::memory_order_acq_rel);
  if (place < kBreakagePlaces) {
    BreakageRecord& record = header.broken[place];
    record.team[0].store(breakage.team[0], std::memory_order_relaxed);
    record.team[1].store(breakage.team[1], std::memory_order_relaxed);
    record.what.store((static_cast<std::uint64_t>(breakage.code) + 1) |
                          (breakage.every_team ? kEveryTeam : 0) |
                          (static_cast<std::uint64_t>(breakage.teller + 1) & 0x7fffff) << 9 |
                          static_cast<std::uint64_t>(breakage.rank + 1) << 32,
                      std::memory_order_release);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const std::int32_t peer : neighbours_) wake(peer, Event::solicited);
}

bool ShmFabric::left(std::int32_t peer) noexcept {
  const int local = local_index(peer);
  return local >= 0 && segment_->slot(local).gone.load(std::memory_order_acquire) == kLeft;
}

std::uint64_t ShmFabric::now_ns() const noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tutti::shm
