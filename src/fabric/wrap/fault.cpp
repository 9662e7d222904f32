#include "fabric/wrap/fault.hpp"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "fabric/wrap/fault_datagrams.hpp"

namespace tutti::wrap {
namespace {

bool wants_signals(const FaultSpec& spec) {
  return std::any_of(spec.rules.begin(), spec.rules.end(), [](const FaultRule& rule) {
    const bool of_operations =
        rule.action != FaultAction::deaf && rule.action != FaultAction::nocma;
    return of_operations && (rule.op == FaultOp::signal || rule.op == FaultOp::any);
  });
}

bool inside(const Remote& remote, std::size_t offset, std::size_t bytes) {
  return offset <= remote.bytes && bytes <= remote.bytes - offset;
}

void count(Completion* completion, const Status& status) noexcept {
  if (completion != nullptr) completion->finish(status);
}

}  // namespace

Fault::Fault(std::unique_ptr<Fabric> wrapped, const FaultSpec& spec)
    : Forward(std::move(wrapped), wants_signals(spec)) {
  for (const FaultRule& rule : spec.rules) {
    if (rule.rank >= 0 && rule.rank != rank_) continue;
    deaf_ = deaf_ || rule.action == FaultAction::deaf;
    nocma_ = nocma_ || rule.action == FaultAction::nocma;
    if (rule.action != FaultAction::deaf && rule.action != FaultAction::nocma)
      rules_.push_back({rule});
  }
  if (nocma_) traits_.user_memory = false;
  if (Datagrams* const plain = inner().datagrams()) {
    datagrams_ =
        std::make_unique<FaultDatagrams>(*plain, [this](FaultOp op) noexcept { return next(op); });
  }
}

Datagrams* Fault::datagrams() noexcept { return datagrams_.get(); }

Fault::~Fault() {
  for (Held& held : held_) carry_out(held);
}

const FaultRule* Fault::next(FaultOp op, std::int32_t peer) noexcept {
  const FaultRule* first = nullptr;
  for (Counted& counted : rules_) {
    const FaultRule& rule = counted.rule;
    if (rule.op != op && rule.op != FaultOp::any) continue;
    if (rule.peer >= 0 && rule.peer != peer) continue;
    const std::uint64_t number = ++counted.seen;
    if (first != nullptr || number < rule.at || (number - rule.at) % rule.every != 0) continue;
    if (rule.count != 0 && (number - rule.at) / rule.every >= rule.count) continue;
    first = &rule;
  }
  if (first != nullptr && first->action == FaultAction::kill) raise(SIGKILL);
  return first;
}

bool Fault::outside_arena(const void* base, std::size_t bytes) noexcept {
  const Region& own = inner().arena();
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  const auto arena = reinterpret_cast<std::uintptr_t>(own.base);
  return bytes != 0 &&
         (start < arena || start - arena > own.bytes || bytes > own.bytes - (start - arena));
}

Status Fault::expose(void* base, std::size_t bytes, Region* out) noexcept {
  if (const FaultRule* rule = next(FaultOp::expose))
    return Status::error(rule->code, "injected fault");
  if (nocma_ && outside_arena(base, bytes)) {
    return Status::error(Code::not_permitted, "cross-memory attach is not permitted");
  }
  return inner().expose(base, bytes, out);
}

Status Fault::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  if (const FaultRule* rule = next(FaultOp::attach, peer))
    return Status::error(rule->code, "injected fault");
  return inner().attach(peer, key, out);
}

Status Fault::reserve(std::size_t offset, std::size_t bytes) noexcept {
  if (const FaultRule* rule = next(FaultOp::reserve))
    return Status::error(rule->code, "injected fault");
  return inner().reserve(offset, bytes);
}

Status Fault::get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
                  Completion* completion) noexcept {
  if (const FaultRule* rule = next(FaultOp::get, source.peer))
    return {rule->code, source.peer, "injected fault"};
  return inner().get(source, offset, destination, bytes, completion);
}

Status Fault::put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
                  const Tail* tail, Completion* completion, Event event) noexcept {
  const FaultRule* rule = next(FaultOp::put, target.peer);
  if (rule != nullptr && rule->action == FaultAction::slow) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(rule->delay_ns));
    rule = nullptr;
  }
  if (rule == nullptr && !holds(target.peer))
    return inner().put(target, offset, source, bytes, tail, completion, event);
  const bool fails = rule != nullptr && rule->action == FaultAction::fail;
  if (fails && rule->delay_ns == 0) return {rule->code, target.peer, "injected fault"};
  // From here on inner() sees the put late or not at all, but what is wrong with it is said now.
  if (!inside(target, offset, bytes) ||
      (tail != nullptr && !inside(target, tail->offset, sizeof(Word)))) {
    return Status::error(Code::truncated, "outside the remote region");
  }
  if (tail != nullptr && tail->offset % sizeof(Word) != 0) {
    return Status::error(Code::invalid_argument, "unaligned tail");
  }
  TUTTI_TRY(inner().put(target, 0, nullptr, 0, nullptr, nullptr));
  switch (rule == nullptr ? FaultAction::delay : rule->action) {
    case FaultAction::drop:
      if (completion != nullptr) completion->post();
      count(completion, Status::success());
      return Status::success();
    case FaultAction::duplicate:
      TUTTI_TRY(inner().put(target, offset, source, bytes, tail, nullptr, event));
      return inner().put(target, offset, source, bytes, tail, completion, event);
    case FaultAction::corrupt:
      return put_corrupted(target, offset, source, bytes, tail, completion, event);
    default:
      return hold(target, offset, source, bytes, tail, completion, event,
                  now_ns() + (rule == nullptr ? 0 : rule->delay_ns), fails ? rule->code : Code::ok);
  }
}

Status Fault::put_corrupted(const Remote& target, std::size_t offset, const void* source,
                            std::size_t bytes, const Tail* tail, Completion* completion,
                            Event event) noexcept {
  if (bytes == 0) return inner().put(target, offset, source, bytes, tail, completion, event);
  std::vector<std::byte> wrong(static_cast<const std::byte*>(source),
                               static_cast<const std::byte*>(source) + bytes);
  wrong[bytes / 2] ^= std::byte{0x10};
  // The copy must outlive the put: wait for it here. Local by nature where faults are injected.
  Completion local;
  TUTTI_TRY(inner().put(target, offset, wrong.data(), bytes, tail, &local, event));
  while (!local.over()) inner().progress();
  if (completion != nullptr) completion->post();
  count(completion, local.status());
  return Status::success();
}

bool Fault::holds(std::int32_t peer) const noexcept {
  return std::any_of(held_.begin(), held_.end(),
                     [peer](const Held& held) { return held.target.peer == peer; });
}

Status Fault::hold(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
                   const Tail* tail, Completion* completion, Event event, std::uint64_t due_ns,
                   Code code) {
  Held held{
      target,     offset, source, {},   bytes, tail != nullptr, tail != nullptr ? *tail : Tail{},
      completion, due_ns, code,   event};
  if (completion != nullptr) {
    completion->post();
  } else {
    const auto* first = static_cast<const std::byte*>(source);
    held.copy.assign(first, first + bytes);
  }
  held_.push_back(std::move(held));
  return Status::success();
}

void Fault::wake(std::int32_t peer, Event event) noexcept {
  if (peer == rank_ || !holds(peer)) return inner().wake(peer, event);
  Held bell{};
  bell.target.peer = peer;
  bell.event = event;
  bell.bell = true;
  held_.push_back(std::move(bell));
}

void Fault::carry_out(Held& held) noexcept {
  if (held.bell) return inner().wake(held.target.peer, held.event);
  if (held.code != Code::ok && held.completion != nullptr)
    return count(held.completion, {held.code, held.target.peer, "injected fault"});
  Completion local;
  const void* const source = held.completion != nullptr ? held.source : held.copy.data();
  Status status = inner().put(held.target, held.offset, source, held.bytes,
                              held.has_tail ? &held.tail : nullptr, &local, held.event);
  while (status.ok() && !local.over()) inner().progress();
  if (status.ok()) status = local.status();
  count(held.completion, status);
}

void Fault::progress() noexcept {
  inner().progress();
  if (held_.empty()) return;
  const std::uint64_t now = now_ns();
  // In order: what follows to the same peer was given no earlier time, and waits behind.
  std::vector<std::int32_t> blocked;
  for (auto held = held_.begin(); held != held_.end();) {
    const bool waits =
        std::find(blocked.begin(), blocked.end(), held->target.peer) != blocked.end();
    if (waits || held->due_ns > now) {
      if (!waits) blocked.push_back(held->target.peer);
      ++held;
      continue;
    }
    carry_out(*held);
    held = held_.erase(held);
  }
}

void Fault::sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept {
  // A put that is due soon must not wait for the sleeper's next look. Other threads may add to
  // held_ meanwhile, so only the shortest delay of the rules is considered, not the list.
  for (const Counted& counted : rules_) {
    if (counted.rule.delay_ns != 0 && counted.rule.action != FaultAction::slow)
      timeout_ns = std::min(timeout_ns, counted.rule.delay_ns);
  }
  if (!deaf_) return inner().sleep(ticket, timeout_ns, attention);
  const timespec time{static_cast<time_t>(timeout_ns / 1'000'000'000),
                      static_cast<long>(timeout_ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

void Fault::signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
  const FaultRule* rule = next(FaultOp::signal, peer);
  if (rule != nullptr && rule->action == FaultAction::drop) return;
  inner().signal(peer, word, value);
}

}  // namespace tutti::wrap
