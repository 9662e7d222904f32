#include "fabric/nodes/nodes.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "fabric/key.hpp"

namespace tutti::nodes {
namespace {

constexpr int kKindBits = 2;
std::uint32_t notice(std::uint32_t kind, std::int32_t peer) noexcept {
  return static_cast<std::uint32_t>(peer) << kKindBits | kind;
}

// Kinds of keys: words[1] is an offset or an address at the owner's, words[2] length and rank,
// words[3] the network's key.
constexpr std::uint32_t kArenaKey = 0x6e6f6461;
constexpr std::uint32_t kUserKey = 0x6e6f6475;
constexpr int kRankBits = 24;

Key make_key(std::uint32_t kind, std::uint64_t start, std::size_t bytes, std::int32_t owner,
             std::uint64_t key) {
  return seal_key(
      kind, start,
      static_cast<std::uint64_t>(bytes) << kRankBits | static_cast<std::uint32_t>(owner), key);
}

std::int32_t owner_of(const Key& key) noexcept {
  return static_cast<std::int32_t>(key.words[2] & ((std::uint64_t{1} << kRankBits) - 1));
}

constexpr std::uint64_t kDoubt = 300'000'000;  // ns that a peer may take to answer
constexpr std::uint64_t kQuiet =
    250'000'000;  // ns: a peer that was heard of since then is not asked

}  // namespace

// ---- memory
// --------------------------------------------------------------------------------------

Status NodesFabric::expose(void* base, std::size_t bytes, Region* out) noexcept {
  const auto* start = static_cast<const std::byte*>(base);
  const auto* arena = static_cast<const std::byte*>(arena_.base);
  Region region{base, bytes, 0, {}};
  if (bytes >= std::size_t{1} << (64 - kRankBits) ||
      bytes > ~std::uint64_t{0} - reinterpret_cast<std::uint64_t>(base)) {
    return Status::error(Code::invalid_argument, "more memory than a key can name");
  }
  if (start >= arena && start <= arena + arena_.bytes &&
      bytes <= static_cast<std::size_t>(arena + arena_.bytes - start)) {
    region.key = make_key(kArenaKey, static_cast<std::uint64_t>(start - arena), bytes, rank_, 0);
  } else {
    NetworkMemory memory;
    if (bytes != 0) TUTTI_TRY(network_->expose(base, bytes, &memory));
    region.handle = memory.handle;
    region.key =
        make_key(kUserKey, reinterpret_cast<std::uint64_t>(base), bytes, rank_, memory.key);
  }
  *out = region;
  return Status::success();
}

void NodesFabric::withdraw(Region& region) noexcept {
  if (region.handle != 0) network_->withdraw({region.handle, 0, 0});
  region = Region{};
}

Status NodesFabric::arena_of(std::int32_t peer, Remote* out) noexcept {
  if (peer < 0 || peer >= size_) return Status::error(Code::invalid_argument, "no such rank");
  Remote remote;
  if (!is_remote(peer)) {
    TUTTI_TRY(shm_->arena_of(peer, &remote));
    remote.bytes = arena_.bytes;  // less the boxes of breakages
    *out = remote;
    return Status::success();
  }
  remote.peer = peer;
  remote.bytes = arena_.bytes;
  remote.handle = peer_at(peer).address;
  remote.key.words[3] = peer_at(peer).key;
  *out = remote;
  return Status::success();
}

Status NodesFabric::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  if (peer < 0 || peer >= size_) return Status::error(Code::invalid_argument, "no such rank");
  const std::uint32_t kind = key_kind(key);
  if (kind != kArenaKey && kind != kUserKey)
    return Status::error(Code::invalid_argument, "not a key of this fabric");
  if (owner_of(key) != peer)
    return Status::error(Code::invalid_argument, "the key belongs to another rank");
  const std::uint64_t start = key.words[1];
  const std::size_t bytes = key.words[2] >> kRankBits;
  if (kind == kArenaKey && (start > arena_.bytes || bytes > arena_.bytes - start)) {
    return Status::error(Code::truncated, "key outside the arena");
  }
  if (!is_remote(peer)) {
    const std::uint32_t local = kind == kArenaKey ? shm::kArenaKey : shm::kUserKey;
    return shm_->attach(peer, seal_key(local, start, bytes, static_cast<std::uint64_t>(peer)), out);
  }
  if (peer_at(peer).state.load(std::memory_order_acquire) != kPresent)
    return Status::peer_lost(peer, "the peer is lost");
  Remote remote;
  remote.peer = peer;
  remote.bytes = bytes;
  const bool by_offset =
      peer_at(peer).address == 0;  // the network counts from the start of what is registered
  remote.handle = kind == kArenaKey ? peer_at(peer).address + start : by_offset ? 0 : start;
  remote.key = key;
  if (kind == kArenaKey) remote.key.words[3] = peer_at(peer).key;
  *out = remote;
  return Status::success();
}

// ---- data
// ----------------------------------------------------------------------------------------

Status NodesFabric::check_range(const Remote& remote, std::size_t offset,
                                std::size_t bytes) noexcept {
  if (remote.peer < 0 || remote.peer >= size_)
    return Status::error(Code::invalid_argument, "no such rank");
  if (offset > remote.bytes || bytes > remote.bytes - offset) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  if (peer_at(remote.peer).state.load(std::memory_order_acquire) != kPresent) {
    return Status::peer_lost(remote.peer, "the peer is lost");
  }
  return Status::success();
}

void NodesFabric::notify(std::int32_t peer, std::uint32_t kind, std::int32_t subject) noexcept {
  static_cast<void>(network_->notify(arena_target(peer), notice(kind, subject)));
}

void NodesFabric::say_last(std::int32_t peer, std::uint32_t kind) noexcept {
  if (!peer_at(peer).served_unsolicited) return notify(peer, kind, rank_);
  static_cast<void>(network_->notify_last(arena_target(peer), notice(kind, rank_)));
}

/// A peer is told once who talks to it, so that it can say goodbye.
Status NodesFabric::introduce(std::int32_t peer) noexcept {
  if (peer_at(peer).introduced.exchange(true, std::memory_order_relaxed)) return Status::success();
  return network_->notify(arena_target(peer), notice(kHello, rank_));
}

Status NodesFabric::put(const Remote& target, std::size_t offset, const void* source,
                        std::size_t bytes, const Tail* tail, Completion* completion,
                        Event event) noexcept {
  if (!is_remote(target.peer))
    return shm_->put(target, offset, source, bytes, tail, completion, event);
  TUTTI_TRY(check_range(target, offset, bytes));
  NetworkTarget counter;
  if (tail != nullptr) {
    TUTTI_TRY(check_range(target, tail->offset, sizeof(Word)));
    if (tail->offset % sizeof(Word) != 0)
      return Status::error(Code::invalid_argument, "unaligned tail");
    counter = target_of(target, tail->offset);
  }
  if (bytes == 0 && tail == nullptr) {
    if (completion != nullptr) {
      completion->post();
      completion->finish(Status::success());
    }
    return Status::success();
  }
  TUTTI_TRY(introduce(target.peer));
  TUTTI_TRY(network_->put(target_of(target, offset), source, bytes,
                          tail != nullptr ? &counter : nullptr, tail != nullptr ? tail->value : 0,
                          completion, event));
  // The first of them makes a connection, in which a peer that computes must take part.
  if (event == Event::unsolicited && !peer_at(target.peer).served_unsolicited) {
    peer_at(target.peer).served_unsolicited = true;
    network_->ring(arena_target(target.peer));
  }
  look_after(event == Event::unsolicited && completion != nullptr);
  if (completion != nullptr) completion->post(*this);
  return Status::success();
}

/// What cannot leave at once, or leaves `bit_by_bit`, is seen to by whoever sleeps on the network,
/// though it sleeps for less.
void NodesFabric::look_after(bool bit_by_bit) noexcept {
  const bool thread = listening_.load(std::memory_order_relaxed) == Watch::solicited;
  const bool watcher = watch_.load(std::memory_order_relaxed) == Watch::solicited;
  if ((!thread && !watcher) || (!bit_by_bit && !network_->blocked())) return;
  if (thread) wake_thread();
  if (watcher) shm_->wake(rank_, Event::solicited);
}

Status NodesFabric::get(const Remote& source, std::size_t offset, void* destination,
                        std::size_t bytes, Completion* completion) noexcept {
  if (!is_remote(source.peer)) return shm_->get(source, offset, destination, bytes, completion);
  if (completion == nullptr)
    return Status::error(Code::invalid_argument, "a get needs a completion");
  TUTTI_TRY(check_range(source, offset, bytes));
  if (bytes != 0) {
    TUTTI_TRY(introduce(source.peer));
    TUTTI_TRY(network_->get(target_of(source, offset), destination, bytes, completion));
  } else {
    completion->finish(Status::success());
  }
  completion->post(*this);
  return Status::success();
}

void NodesFabric::forget(Completion& completion) noexcept {
  // A read that is not answered ends when its peer is lost; until then its memory must stay.
  const std::uint64_t until = now_ns() + 2 * timeout_ns_;
  while (network_->forget(&completion) != 0 && now_ns() < until) network_->progress(true);
}

void NodesFabric::progress() noexcept {
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool came = datagrams_ && datagrams_->progress();
  Moved moved = network_->progress(false);
  if (moved == Moved::something) {
    take_notices();
    if (listening_.load(std::memory_order_relaxed) == Watch::solicited && network_->must_hear_all())
      wake_thread();
  }
  if (came) moved = Moved::something;
  if (moved != Moved::nothing) {
    parts_.moved();
    if (sleepers()) ring_sleepers(moved);
  }
  collect();
}

/// Counts what is over. Under the engine's lock, as is the counting of operations within the node.
void NodesFabric::collect() noexcept {
  constexpr std::size_t kBatch = 16;
  NetworkFinished over[kBatch];
  for (std::size_t count = kBatch; count == kBatch;) {
    count = network_->finished(over, kBatch);
    if (count != 0) parts_.moved();
    for (std::size_t i = 0; i < count; ++i) {
      const Status& status = over[i].status;
      if (status.code == Code::peer_lost) {
        hear_last_words();
        lose(status.peer, status.detail, true);
      }
      if (over[i].completion != nullptr) over[i].completion->finish(status);
    }
  }
}

// ---- peers
// ---------------------------------------------------------------------------------------

void NodesFabric::take_notices() noexcept {
  std::uint32_t notices[16];
  for (std::size_t count = 16; count == 16;) {
    count = network_->notices(notices, 16);
    for (std::size_t i = 0; i < count; ++i) {
      const auto peer = static_cast<std::int32_t>(notices[i] >> kKindBits);
      const std::uint32_t kind = notices[i] & ((1u << kKindBits) - 1);
      if (peer >= size_) continue;
      if (kind == kBroken) {
        hear_broken(peer);
        continue;
      }
      if (kind == kLostRank) {
        if (peer != rank_) lose(peer, nullptr, true);
        continue;
      }
      peer_at(peer).introduced.store(true, std::memory_order_relaxed);
      std::uint8_t expected = kPresent;
      if (kind == kGoodbye)
        peer_at(peer).state.compare_exchange_strong(expected, kLeft, std::memory_order_acq_rel);
    }
  }
}

/// Before a rank is given up: it may have said goodbye, or why it goes.
void NodesFabric::hear_last_words() noexcept {
  for (int i = 0; i < 4 && network_->progress(true) != Moved::nothing; ++i) {
  }
  take_notices();
}

/// Whoever loses a rank tells all that it communicates with, on this node and on others, so that
/// those that wait for the ones that give up now do not wait for ever. `why`: nullptr when it was
/// told itself.
void NodesFabric::lose(std::int32_t peer, const char* why, bool pass_on_locally) noexcept {
  std::uint8_t expected = kPresent;
  if (!peer_at(peer).state.compare_exchange_strong(expected, kLost, std::memory_order_acq_rel))
    return;
  if (why != nullptr) {
    log(LogLevel::error, "rank %d on node %s is lost: %s", peer,
        names_[static_cast<std::size_t>(node_of(peer))].c_str(), why);
  }
  if (is_remote(peer)) network_->drop(peer);
  if (pass_on_locally) shm_->tell_lost(peer);
  for (std::int32_t other = 0; other < size_; ++other) {
    if (!is_remote(other) || !peer_at(other).introduced.load(std::memory_order_relaxed)) continue;
    if (peer_at(other).state.load(std::memory_order_acquire) != kPresent) continue;
    notify(other, kLostRank, peer);
  }
}

bool NodesFabric::answers(std::int32_t peer, Probe& probe, std::uint64_t now) noexcept {
  if (probe.asking && probe.completion.over()) {
    probe.asking = false;
    probe.answered_ns = now;
    lifelines_.release(peer);
    if (!probe.completion.status().ok()) return false;
  }
  if (probe.asking) {
    if (now - probe.asked_ns < kDoubt) return true;
    // It may be stopped, or its network be slow: its machine knows whether it has ended.
    const PeerHealth::Verdict verdict = lifelines_.ask(peer, now);
    if (verdict == PeerHealth::Verdict::stands) {
      probe.stood_ns = now;
      return true;
    }
    if (verdict == PeerHealth::Verdict::gone) {
      hear_last_words();
      lose(peer, "the process has ended", true);
      return peer_at(peer).state.load(std::memory_order_acquire) == kLeft;
    }
    if (now - std::max(probe.asked_ns, probe.stood_ns) < timeout_ns_) return true;
    lose(peer, "it has not answered within TUTTI_NET_TIMEOUT", true);
    return false;
  }
  // Only who communicates with it asks: health is no reason to connect everybody with everybody.
  if (now - probe.answered_ns < kQuiet || !peer_at(peer).introduced.load(std::memory_order_relaxed))
    return true;
  probe.asked_ns = now;
  probe.asking = true;
  Remote arena;
  return arena_of(peer, &arena).ok() &&
         get(arena, 0, &probe.word, sizeof probe.word, &probe.completion).ok();
}

bool NodesFabric::alive(std::int32_t peer) noexcept {
  if (peer < 0 || peer >= size_) return false;
  if (peer == rank_) return true;
  shm_->lost_elsewhere([this](std::int32_t lost) { lose(lost, nullptr, false); });
  if (!is_remote(peer)) {
    if (shm_->alive(peer)) return peer_at(peer).state.load(std::memory_order_acquire) != kLost;
    lose(peer, "the process has ended", false);
    return false;
  }
  // What has arrived counts first: it may be a goodbye.
  if (network_->progress(false) != Moved::nothing) take_notices();
  const std::lock_guard lock(probes_mutex_);
  std::uint8_t state = peer_at(peer).state.load(std::memory_order_acquire);
  if (state == kPresent) {
    if (answers(peer, probes_[peer], now_ns())) return true;
    hear_last_words();
    lose(peer, "its connection is broken", true);  // unless a goodbye was among them
    state = peer_at(peer).state.load(std::memory_order_acquire);
  }
  return state == kLeft;
}

bool NodesFabric::left(std::int32_t peer) noexcept {
  if (!is_remote(peer)) return shm_->left(peer);
  return peer_at(peer).state.load(std::memory_order_acquire) == kLeft;
}

}  // namespace tutti::nodes
