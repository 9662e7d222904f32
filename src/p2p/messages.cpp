#include "p2p/messages.hpp"

#include <algorithm>
#include <utility>

#include "base/ticks.hpp"
#include "p2p/answers.hpp"
#include "p2p/small_answers.hpp"

namespace tutti::p2p {
namespace {

Options limited(Options options) noexcept {
  options.eager = std::min(options.eager, kMostEager);
  return options;
}

Wish receive_of(const Arrival& message, void* buffer, std::size_t room) noexcept {
  return Wish::receive(*message.context->group, buffer, room,
                       static_cast<int>(message.header.source), message.header.tag);
}

}  // namespace

Messages::Messages(Engine& engine, ArenaHeap& heap, const Options& options) noexcept
    : engine_(engine),
      fabric_(engine.fabric()),
      options_(limited(options)),
      backlog_(engine),
      transfers_(engine, options_),
      contexts_(engine, transfers_),
      peers_(engine, heap, transfers_, backlog_, delivery_),
      outbox_(engine, options_, peers_, backlog_, counts_),
      unexpected_(engine, transfers_, outbox_, counts_),
      eager_(fabric_, options_, contexts_, peers_, transfers_, outbox_, counts_),
      rendezvous_(engine, options_, transfers_, outbox_, counts_),
      sends_(fabric_, options_, peers_, transfers_, outbox_, unexpected_, eager_, rendezvous_,
             counts_),
      receives_(fabric_, contexts_, peers_, transfers_, eager_, rendezvous_),
      delivery_(engine, contexts_, peers_, transfers_, unexpected_, eager_, rendezvous_, counts_),
      probes_(engine, contexts_, transfers_, receives_, delivery_),
      parting_(engine, backlog_, contexts_, peers_, transfers_, outbox_, unexpected_) {
  nobody_.background = true;
}

/// The host uses messages: whoever waits or polls must move them on from now on. Also where no peer
/// is known yet: a receive from anybody waits for calls.
void Messages::use() noexcept {
  peers_.set_in_use();
  transfers_.sweep();
  peers_.answer();
}

Status Messages::check(const Wish& wish) const noexcept {
  const bool wildcards = wish.kind != Transfer::Kind::send;
  if (fabric_.traits().elided_payload) {
    return Status::error(Code::unsupported, "messages need a simulation with payload");
  }
  if (wish.rank >= wish.group.size() || wish.rank < (wildcards ? kAnySource : 0)) {
    return Status::error(Code::invalid_argument, "no such rank in the team");
  }
  if (wish.tag < (wildcards ? kAnyTag : 0))
    return Status::error(Code::invalid_argument, "a tag is from 0 to 2^31-1");
  return Status::success();
}

/// `watched`: nobody waits in here for it, so that the progress thread may have to.
void Messages::begin(Transfer& transfer, bool watched) noexcept {
  asked_by_ = nullptr;
  if (transfer.kind == Transfer::Kind::send) {
    sends_.begin(transfer, watched, transfer.mode != SendMode::buffered);
  } else {
    receives_.begin(transfer, watched);
  }
}

// ---- blocking

Status Messages::send(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                      SendMode mode) noexcept {
  Entry guard(engine_, backlog_);
  Peer* const asked_by = std::exchange(asked_by_, nullptr);
  const bool may_leave = mode != SendMode::synchronous;
  Sends::Way way;
  if (asked_by != nullptr && mode != SendMode::buffered) {
    way = sends_.way_of_answer(*asked_by, asked_bytes_, group, bytes, destination, may_leave);
  }
  const std::uint64_t begun = way.stores ? ticks() : 0;
  const bool crosses = !way.chosen && mode != SendMode::buffered &&
                       sends_.may_cross(group, bytes, destination);
  if (!way.by_kernel && !crosses && may_leave &&
      eager_.send_now(group, data, bytes, destination, tag, way.stores)) {
    if (way.stores)
      asked_by->small_answers.note_written(begun, {asked_by->sent, asked_by->received});
    return Status::success();
  }
  use();
  const Wish wish = Wish::send(group, data, bytes, destination, tag, mode);
  TUTTI_TRY(check(wish));
  Transfer transfer;
  transfer.want(contexts_.of(group), wish);
  transfer.waited = true;
  transfer.by_kernel = way.by_kernel;
  sends_.begin(transfer, false, crosses);
  delivery_.wait_for(transfer, guard);
  return transfer.outcome.status;
}

/// A rank that finds each message in its place may never wait: what else is under way is looked
/// after now and then.
void Messages::taken_at_once() noexcept {
  constexpr std::uint32_t kReceivesPerLook = 64;
  if (++taken_ % kReceivesPerLook != 0) return;
  delivery_.poll(nullptr);
  for (std::uint32_t i = 0; i < kReceivesPerLook && engine_.poll(); ++i) {
  }
}

Receipt Messages::receive(Group& group, void* buffer, std::size_t room, int source,
                          int tag) noexcept {
  Entry guard(engine_, backlog_);
  asked_by_ = nullptr;
  if (const Peer* const peer = receives_.next_from(group, source, tag)) {
    for (std::uint32_t spins = engine_.policy().spins; spins != 0 && !peer->arrived(); --spins)
      cpu_pause();
  }
  Receipt at_once;
  if (receives_.receive_now(group, buffer, room, source, tag, &at_once)) {
    taken_at_once();
    note_question(group, at_once, false);
    return at_once;
  }
  use();
  const Wish wish = Wish::receive(group, buffer, room, source, tag);
  if (const Status status = check(wish); !status.ok()) return {.status = status};
  Transfer transfer;
  transfer.want(contexts_.of(group), wish);
  transfer.waited = true;
  begin(transfer, false);
  delivery_.wait_for(transfer, guard);
  note_question(group, transfer.outcome, transfer.by_kernel);
  return transfer.outcome;
}

/// A blocking receive has got a message, and what comes next may be its answer. Who has begun
/// something else meanwhile may be one of many that all send first, and must not wait.
void Messages::note_question(const Group& group, const Receipt& receipt, bool by_kernel) noexcept {
  const bool small = SmallAnswers::suits(receipt.bytes);
  if (!small && !Answers::suits(receipt.bytes)) return;
  if (!options_.tries || !receipt.status.ok() || receipt.source < 0) return;
  asked_by_ = peers_.known(group.job_rank(receipt.source));
  if (asked_by_ == nullptr) return;
  Peer& peer = *asked_by_;
  asked_bytes_ = receipt.bytes;
  if (small) {
    const std::uint64_t before = peer.received - peer.packets_of(receipt.bytes);
    peer.small_answers.receive(receipt.bytes, ticks(), {peer.sent, before});
  } else {
    peer.answers.receive(receipt.bytes, by_kernel, fabric_.now_ns());
  }
}

Receipt Messages::exchange(Group& group, const void* data, std::size_t bytes, int destination,
                           int send_tag, void* buffer, std::size_t room, int source,
                           int receive_tag) noexcept {
  Entry guard(engine_, backlog_);
  use();
  const Wish out = Wish::send(group, data, bytes, destination, send_tag);
  const Wish in = Wish::receive(group, buffer, room, source, receive_tag);
  Status status = check(out);
  if (status.ok()) status = check(in);
  if (!status.ok()) return {.status = status};
  Transfer receiving, sending;
  Context& context = contexts_.of(group);
  receiving.want(context, in);
  sending.want(context, out);
  receiving.waited = sending.waited = true;
  begin(receiving, false);
  begin(sending, false);
  const auto over = [&] { return !receiving.active() && !sending.active(); };
  if (!over()) delivery_.wait_until(over, nullptr, guard);
  if (receiving.outcome.status.ok()) receiving.outcome.status = sending.outcome.status;
  return receiving.outcome;
}

// ---- non-blocking and persistent

Status Messages::prepare(const Wish& wish, Transfer** out) noexcept {
  TUTTI_TRY(check(wish));
  return transfers_.make(contexts_.of(wish.group), wish, out);
}

Status Messages::start(const Wish& wish, Engine::Guard& guard, Transfer** out) noexcept {
  use();
  TUTTI_TRY(prepare(wish, out));
  begin_watched(**out, guard);
  return Status::success();
}

/// A transfer for which nobody waits in here.
void Messages::begin_watched(Transfer& transfer, Engine::Guard& guard) noexcept {
  // There may be a progress thread from now on.
  if (Episodes::suits(transfer.bytes) || transfer.bytes > eager_.most(nullptr)) guard.escalate();
  begin(transfer, true);
}

Status Messages::start_send(Group& group, const void* data, std::size_t bytes, int destination,
                            int tag, SendMode mode, Transfer** out) noexcept {
  Entry guard(engine_, backlog_);
  return start(Wish::send(group, data, bytes, destination, tag, mode), guard, out);
}

Status Messages::start_receive(Group& group, void* buffer, std::size_t room, int source, int tag,
                               Transfer** out) noexcept {
  Entry guard(engine_, backlog_);
  return start(Wish::receive(group, buffer, room, source, tag), guard, out);
}

Status Messages::prepare_send(Group& group, const void* data, std::size_t bytes, int destination,
                              int tag, SendMode mode, Transfer** out) noexcept {
  Entry guard(engine_, backlog_);
  use();
  return prepare(Wish::send(group, data, bytes, destination, tag, mode), out);
}

Status Messages::prepare_receive(Group& group, void* buffer, std::size_t room, int source, int tag,
                                 Transfer** out) noexcept {
  Entry guard(engine_, backlog_);
  use();
  return prepare(Wish::receive(group, buffer, room, source, tag), out);
}

Status Messages::restart(Transfer& transfer) noexcept {
  if (transfer.active()) return Status::error(Code::invalid_argument, "the transfer is active");
  Entry guard(engine_, backlog_);
  transfers_.sweep();
  transfer.waited = transfer.by_kernel = false;
  begin_watched(transfer, guard);
  return Status::success();
}

bool Messages::test(Transfer& transfer, Receipt* out) noexcept {
  if (transfer.active()) {
    Entry guard(engine_, backlog_);
    delivery_.poll(nullptr);
    while (transfer.active() && engine_.poll()) {
    }
    if (transfer.active()) engine_.glance();
    if (transfer.active()) return false;
  }
  *out = transfer.outcome;
  return true;
}

void Messages::expect_large(Transfer& transfer) noexcept {
  Entry guard(engine_, backlog_);
  transfer.waited = true;
  if (transfer.kind != Transfer::Kind::send) return;
  delivery_.poll(transfer.peer);  // it may be over
  if (transfer.active()) rendezvous_.wait_for(transfer);
}

void Messages::wait_for(Transfer& transfer) noexcept {
  expect(transfer);
  Entry guard(engine_, backlog_);
  delivery_.wait_for(transfer, guard);
}

void Messages::cancel(Transfer& transfer) noexcept {
  if (!transfer.active()) return;
  Entry guard(engine_, backlog_);
  if (!transfer.active()) return;
  if (transfer.kind == Transfer::Kind::send) {
    sends_.cancel(transfer);
  } else {
    receives_.cancel(transfer);
  }
}

// ---- probes

bool Messages::take_now(Group& group, int source, int tag, Receipt* out,
                        Arrival** message) noexcept {
  Entry guard(engine_, backlog_);
  use();
  if (const Status status = check(Wish::probe(group, source, tag)); !status.ok()) {
    *out = {.status = status};
    return true;
  }
  return probes_.take_now(group, source, tag, out, message);
}

Receipt Messages::take(Group& group, int source, int tag, Arrival** message) noexcept {
  Entry guard(engine_, backlog_);
  use();
  const Status status = check(Wish::probe(group, source, tag));
  if (!status.ok()) return {.status = status};
  return probes_.take(group, source, tag, message, guard);
}

bool Messages::probe_now(Group& group, int source, int tag, Receipt* out) noexcept {
  return take_now(group, source, tag, out, nullptr);
}

Receipt Messages::probe(Group& group, int source, int tag) noexcept {
  return take(group, source, tag, nullptr);
}

Receipt Messages::receive_taken(Arrival* message, void* buffer, std::size_t room) noexcept {
  if (message == nullptr) return {.status = Status::error(Code::invalid_argument, "no message")};
  Entry guard(engine_, backlog_);
  asked_by_ = nullptr;
  const Wish wish = receive_of(*message, buffer, room);
  Transfer transfer;
  transfer.want(contexts_.of(wish.group), wish);
  transfer.waited = true;
  receives_.begin_with(message, transfer);
  delivery_.wait_for(transfer, guard);
  return transfer.outcome;
}

Status Messages::start_receive_taken(Arrival* message, void* buffer, std::size_t room,
                                     Transfer** out) noexcept {
  if (message == nullptr) return Status::error(Code::invalid_argument, "no message");
  Entry guard(engine_, backlog_);
  guard.escalate();
  asked_by_ = nullptr;
  Transfer* transfer = nullptr;
  TUTTI_TRY(prepare(receive_of(*message, buffer, room), &transfer));
  receives_.begin_with(message, *transfer);
  if ((transfer->by_kernel || eager_.large(*transfer)) && transfer->active())
    transfers_.watch(*transfer);
  *out = transfer;
  return Status::success();
}

void Messages::discard(Arrival* message) noexcept {
  Entry guard(engine_, backlog_);
  unexpected_.drop(message);
}

// ---- for whoever drives the engine

Engine::Reached Messages::ended(Transfer& transfer) noexcept {
  return engine_.reached(transfer.ended, transfer.started, nobody_);
}

void Messages::finish_sending(const Group* group) noexcept {
  if (!in_use()) return;
  Engine::Guard guard(engine_);
  engine_.wait_until([this, group] { return parting_.has_sent(group); }, guard);
}

bool Messages::cover() noexcept {
  if (!in_use() || fabric_.traits().virtual_time) return false;
  Engine::Guard guard(engine_);
  if (transfers_.unfinished() == 0 && backlog_.empty()) return false;
  guard.escalate();
  engine_.background().cover();
  return true;
}

}  // namespace tutti::p2p
