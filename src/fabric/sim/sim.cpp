#include "fabric/sim/sim.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/key.hpp"

namespace tutti::sim {
namespace {

// Kinds of keys. Their words are the start (offset in the arena, or address), the length and the
// owner's rank.
constexpr std::uint32_t kArenaKey = 0x73696d61;
constexpr std::uint32_t kUserKey = 0x73696d75;

void count(Completion* completion) noexcept {
  if (completion != nullptr) completion->finish(Status::success());
}

}  // namespace

SimFabric::SimFabric(World& world, int rank) noexcept : Fabric(rank, world.ranks()), world_(world) {
  traits_.name = "sim";
  traits_.virtual_time = true;
  traits_.ordered_tail = true;
  traits_.user_memory = world.spec().user_memory;
  traits_.scarce = world.spec().scarce;
  traits_.elided_payload = world.spec().elided;
  traits_.most_carried = world.spec().elided ? 0 : world.spec().most_carried;
  traits_.arena_scale = world.arena_scale_;
  traits_.datagram_bytes = world.network().mtu;
  traits_.bypass = world.network().bypasses_kernel();
  waiters_.next = &waiters_;
  waiters_.previous = &waiters_;
  arena_.base = world.arena_base(rank);
  arena_.bytes = world.spec().arena_bytes;
  arena_.key = seal_key(kArenaKey, 0, arena_.bytes, static_cast<std::uint64_t>(rank));
}

Status SimFabric::expose(void* base, std::size_t bytes, Region* out) noexcept {
  const auto* start = static_cast<const std::byte*>(base);
  const auto* arena = static_cast<const std::byte*>(arena_.base);
  const auto owner = static_cast<std::uint64_t>(rank_);
  Region region{base, bytes, 0, {}};
  if (world_.arena_scale_ == 1 && start >= arena && start + bytes <= arena + arena_.bytes) {
    region.key = seal_key(kArenaKey, static_cast<std::uint64_t>(start - arena), bytes, owner);
  } else {
    region.key = seal_key(kUserKey, reinterpret_cast<std::uint64_t>(base), bytes, owner);
  }
  *out = region;
  return Status::success();
}

Status SimFabric::arena_of(std::int32_t peer, Remote* out) noexcept {
  if (peer < 0 || peer >= size_) return Status::error(Code::invalid_argument, "no such rank");
  std::byte* const base = world_.arena_base(peer);
  Remote remote;
  remote.peer = peer;
  remote.bytes = arena_.bytes;
  remote.mapped = maps(peer) ? base : nullptr;
  remote.handle = reinterpret_cast<std::uint64_t>(base);
  remote.key = seal_key(kArenaKey, 0, remote.bytes, static_cast<std::uint64_t>(peer));
  *out = remote;
  return Status::success();
}

Status SimFabric::reserve(std::size_t offset, std::size_t bytes) noexcept {
  if (offset > arena_.bytes || bytes > arena_.bytes - offset) {
    return Status::error(Code::no_memory, "the simulated arena is too small");
  }
  return Status::success();
}

Status SimFabric::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  if (peer < 0 || peer >= size_) return Status::error(Code::invalid_argument, "no such rank");
  if (world_.lost(peer)) return Status::peer_lost(peer, "the rank is lost");
  if (key.words[3] != static_cast<std::uint64_t>(peer)) {
    return Status::error(Code::invalid_argument, "the key belongs to another rank");
  }
  const std::uint32_t kind = key_kind(key);
  const std::uint64_t start = key.words[1];
  const std::uint64_t bytes = key.words[2];
  Remote remote;
  if (kind == kArenaKey) {
    if (start > arena_.bytes || bytes > arena_.bytes - start) {
      return Status::error(Code::truncated, "key outside the arena");
    }
    TUTTI_TRY(arena_of(peer, &remote));
    remote.handle += start * world_.arena_scale_;
    if (remote.mapped != nullptr) remote.mapped = reinterpret_cast<void*>(remote.handle);
  } else if (kind == kUserKey) {
    if (bytes > ~std::uint64_t{0} - start)
      return Status::error(Code::truncated, "key wraps around");
    remote.handle = start;
    if (peer == rank_) remote.mapped = reinterpret_cast<void*>(start);
  } else {
    return Status::error(Code::invalid_argument, "not a key of the simulation");
  }
  remote.peer = peer;
  remote.bytes = bytes;
  remote.key = key;
  *out = remote;
  return Status::success();
}

bool SimFabric::maps(std::int32_t peer) const noexcept {
  return peer >= 0 && peer < size_ && world_.node_of(peer) == world_.node_of(rank_);
}

void SimFabric::wake(std::int32_t peer, Event event) noexcept {
  if (event != Event::solicited) return;
  if (last_put_ != nullptr && last_put_event_ == world_.events() && last_put_->to == peer)
    last_put_->rings = true;
}

bool SimFabric::alive(std::int32_t peer) noexcept {
  return peer >= 0 && peer < size_ && !world_.lost(peer);
}

Status SimFabric::check(const Remote& remote, std::size_t offset,
                        std::size_t bytes) const noexcept {
  if (remote.peer < 0 || remote.peer >= size_)
    return Status::error(Code::invalid_argument, "no such rank");
  // Without payload there is no place for data in an arena, only for counters.
  if (!traits_.elided_payload && (offset > remote.bytes || bytes > remote.bytes - offset)) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  return world_.lost(remote.peer) ? Status::peer_lost(remote.peer, "the rank is lost")
                                  : Status::success();
}

Word* SimFabric::word_of(const Remote& remote, std::size_t offset) const noexcept {
  auto* base = reinterpret_cast<std::byte*>(remote.handle);
  return reinterpret_cast<Word*>(base +
                                 offset * (world_.in_arenas(base) ? world_.arena_scale_ : 1));
}

Status SimFabric::put(const Remote& target, std::size_t offset, const void* source,
                      std::size_t bytes, const Tail* tail, Completion* completion, Event) noexcept {
  TUTTI_TRY(check(target, offset, bytes));
  if (tail != nullptr) {
    if (target.bytes < sizeof(Word) || tail->offset > target.bytes - sizeof(Word)) {
      return Status::error(Code::truncated, "tail outside the remote region");
    }
    if (tail->offset % sizeof(Word) != 0)
      return Status::error(Code::invalid_argument, "unaligned tail");
  }
  if (completion != nullptr) completion->post();
  if (maps(target.peer)) return put_within_node(target, offset, source, bytes, tail, completion);
  const Network& network = world_.network();
  Message& message = *world_.make();
  message.kind = Message::Kind::put;
  message.rings = false;
  message.from = rank_;
  message.to = target.peer;
  message.bytes = bytes;
  message.word = tail != nullptr ? word_of(target, tail->offset) : nullptr;
  message.value = tail != nullptr ? tail->value : 0;
  message.completion = completion;
  world_.load(message, source, reinterpret_cast<std::byte*>(target.handle) + offset);
  // Small messages leave from registered memory (VIA-2003, section 3.1: the static scheme).
  if (bytes != 0 && bytes <= network.copied_bytes && !world_.in_arenas(source)) {
    copy_to_registered(message, completion);
  }
  occupy(network.Tm + network.Td);
  last_put_ = &message;
  last_put_event_ = world_.events();
  world_.post(&message, clock_);
  return Status::success();
}

void SimFabric::copy_to_registered(Message& message, Completion* completion) noexcept {
  occupy(world_.network().Tc.of(message.bytes));
  if (message.baggage != nullptr) world_.read_now(message);
  message.completion = nullptr;
  count(completion);
}

Status SimFabric::put_within_node(const Remote& target, std::size_t offset, const void* source,
                                  std::size_t bytes, const Tail* tail,
                                  Completion* completion) noexcept {
  spend_virtually(Work::copy, bytes);
  wrote_virtually(reinterpret_cast<std::byte*>(target.handle) + offset, bytes);
  if (target.mapped == nullptr) spend_virtually(Work::call, 0);
  if (world_.is_carried(bytes)) {
    std::memcpy(reinterpret_cast<std::byte*>(target.handle) + offset, source, bytes);
  }
  if (tail != nullptr) signal_virtually(target.peer, *word_of(target, tail->offset), tail->value);
  count(completion);
  return Status::success();
}

Status SimFabric::get(const Remote& source, std::size_t offset, void* destination,
                      std::size_t bytes, Completion* completion) noexcept {
  TUTTI_TRY(check(source, offset, bytes));
  if (completion == nullptr)
    return Status::error(Code::invalid_argument, "a get needs a completion");
  // Without payload there are still counters: what is as long as one is taken for one.
  const bool counter = traits_.elided_payload && bytes == sizeof(Word);
  const auto* from = counter ? reinterpret_cast<const std::byte*>(word_of(source, offset))
                             : reinterpret_cast<const std::byte*>(source.handle) + offset;
  completion->post();
  if (maps(source.peer)) {
    spend_virtually(Work::copy, bytes);
    if (source.mapped == nullptr) spend_virtually(Work::call, 0);
    if (world_.is_carried(bytes)) std::memcpy(destination, from, bytes);
    count(completion);
    return Status::success();
  }
  Message& message = *world_.make();
  message.kind = Message::Kind::request;
  message.from = rank_;
  message.to = source.peer;
  message.bytes = bytes;
  message.word = nullptr;
  message.completion = completion;
  world_.load(message, from, destination, counter);
  occupy(world_.network().Tm + world_.network().Td);
  world_.post(&message, clock_);
  return Status::success();
}

void SimFabric::signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
  Message& message = *world_.make();
  message.kind = Message::Kind::store;
  message.from = rank_;
  message.to = peer;
  message.word = &word;
  message.value = value;
  if (world_.lines().modelled()) {
    world_.at(clock_, &message, World::kStore);
  } else {
    world_.at(clock_ + world_.network().line, &message, World::kVisible);
  }
}

void SimFabric::spend_virtually(Work work, std::size_t bytes) noexcept {
  const Network& network = world_.network();
  switch (work) {
    case Work::copy:
      occupy(network.Tc.of(bytes));
      break;
    case Work::reduce:
      occupy(network.To + network.To_byte.of(bytes));
      break;
    case Work::match:
      occupy(network.Tr);
      break;
    case Work::interrupt:
      occupy(network.Ti);
      break;
    case Work::call:
      occupy(network.call);
      break;
  }
}

void SimFabric::look_virtually(const void* begin, std::size_t bytes) noexcept {
  Lines& lines = world_.lines();
  if (!lines.modelled() || !world_.in_arenas(begin)) return;
  const Time has = lines.read_all(begin, bytes, rank_, clock_);
  if (has > clock_) occupy(has - clock_);
}

/// Behind what was stored before, as the flag that follows.
void SimFabric::wrote_virtually(const void* begin, std::size_t bytes) noexcept {
  if (!world_.lines().modelled() || !world_.in_arenas(begin)) return;
  Message& message = *world_.make();
  message.kind = Message::Kind::store;
  message.from = message.to = rank_;
  message.bytes = bytes;
  message.word = static_cast<Word*>(const_cast<void*>(begin));
  world_.at(clock_, &message, World::kWrote);
}

void SimFabric::look_again(Time time) noexcept {
  Message& message = *world_.make();
  message.kind = Message::Kind::store;
  message.from = message.to = rank_;
  world_.at(time, &message, World::kCopied);
}

/// Whether the line of a word that has been reached is here at `time`; if not, it is on its way, or
/// the rank asks for it later.
bool SimFabric::has_line(const Waiter& waiter, Time time) noexcept {
  Lines& lines = world_.lines();
  if (!lines.modelled() || !world_.in_arenas(waiter.word)) return true;
  if (clock_ > time && !interrupts(waiter, time)) {
    if (std::exchange(asked_, clock_) != clock_) look_again(clock_);
    return false;
  }
  Time has = time;
  if (lines.awaits(waiter.word, rank_, time, &has)) look_again(has);
  return has <= time;
}

void SimFabric::watch(Waiter& waiter) noexcept {
  // It has looked in vain, and goes on looking: from now on it has a copy of what is there.
  if (world_.lines().modelled() && world_.in_arenas(waiter.word)) {
    Message& message = *world_.make();
    message.kind = Message::Kind::store;
    message.from = message.to = rank_;
    message.word = const_cast<Word*>(waiter.word);
    world_.at(clock_, &message, World::kLook);
  }
  waiter.previous = waiters_.previous;
  waiter.next = &waiters_;
  waiters_.previous->next = &waiter;
  waiters_.previous = &waiter;
}

void SimFabric::alarm(Word& clock, std::uint64_t at_ns) noexcept {
  Message& message = *world_.make();
  message.kind = Message::Kind::alarm;
  message.from = message.to = rank_;
  message.word = &clock;
  message.value = at_ns;
  world_.at(std::max(clock_, Time{at_ns} * 1000), &message, World::kVisible);
}

void SimFabric::unlink(Waiter& waiter) noexcept {
  waiter.previous->next = waiter.next;
  waiter.next->previous = waiter.previous;
  waiter.next = nullptr;
  waiter.previous = nullptr;
}

void SimFabric::prefetch() const noexcept {
  const auto* begin = reinterpret_cast<const std::byte*>(this);
  for (std::size_t i = 0; i < kHot; i += kCacheLine) __builtin_prefetch(begin + i);
}

void SimFabric::prefetch_task() const noexcept {
  constexpr std::size_t kFrame = 9 * kCacheLine;  // what a small collective's frame has
  // The hot part of a team, around its membership, which is the owner.
  constexpr std::size_t kBefore = 2 * kCacheLine, kBehind = 3 * kCacheLine;
  const Waiter& waiter = *waiters_.next;
  if (&waiter == &waiters_) return;
  const auto* frame = static_cast<const std::byte*>(waiter.handle.address());
  for (std::size_t i = 0; i < kFrame; i += kCacheLine) __builtin_prefetch(frame + i);
  const auto* owner = static_cast<const std::byte*>(waiter.owner) - kBefore;
  for (std::size_t i = 0; i < kBefore + kBehind; i += kCacheLine) __builtin_prefetch(owner + i);
}

/// Whether what it waits for interrupts the computation.
bool SimFabric::interrupts(const Waiter& waiter, Time time) const noexcept {
  return foreground_ != nullptr && waiter.word != foreground_ && (!selective_ || rung_) &&
         std::max(time, handlers_free_) < clock_;
}

void SimFabric::resume(Waiter& waiter, Time time) noexcept {
  if (interrupts(waiter, time)) return interrupt(waiter, time);
  advance_to(time);
  if (world_.spec().noise.any()) occupy(0);  // not before the processor is there
  waiter.resume();
}

void SimFabric::interrupt(Waiter& waiter, Time time) noexcept {
  const Time computed = clock_, worked = worked_;
  clock_ = std::max(time, handlers_free_);
  occupy(world_.network().Ti);
  ++interrupts_;
  waiter.resume();
  handlers_free_ = clock_;
  clock_ = computed;  // detours meanwhile are in it; the handler's own work is not
  if (!world_.network().handlers_elsewhere) occupy(worked_ - worked);
}

void SimFabric::settle(Time time) noexcept {
  for (Waiter* waiter = waiters_.next; waiter != &waiters_;) {
    if (!waiter->reached() || !has_line(*waiter, time)) {
      waiter = waiter->next;
      continue;
    }
    waiter->take_status();
    unlink(*waiter);
    resume(*waiter, time);
    waiter = waiters_.next;  // the list has changed
  }
}

Datagrams* SimFabric::datagrams() noexcept {
  if (!datagrams_) datagrams_ = std::make_unique<SimDatagrams>(world_, *this);
  return datagrams_.get();
}

void SimFabric::cast(Flight* flight) noexcept {
  occupy(world_.network().Tm + world_.network().Tc.of(flight->data->size()) + world_.network().Td);
  world_.cast(rank_, flight, clock_);
}

void SimFabric::fail_waits_on(std::int32_t lost, Time time) noexcept {
  for (Waiter* waiter = waiters_.next; waiter != &waiters_;) {
    const bool concerned =
        waiter->peer == lost || (world_.on_lost && world_.on_lost(waiter->owner, lost));
    if (!concerned) {
      waiter = waiter->next;
      continue;
    }
    waiter->outcome = Status::peer_lost(lost, "the rank is lost");
    unlink(*waiter);
    resume(*waiter, time);
    waiter = waiters_.next;  // the list has changed
  }
}

int SimFabric::waiting() const noexcept {
  int count = 0;
  for (const Waiter* waiter = waiters_.next; waiter != &waiters_; waiter = waiter->next) ++count;
  return count;
}

}  // namespace tutti::sim
