// The beginning, the waiting for, and the end of sends, receives and probes.
#include <algorithm>
#include <new>

#include "base/copy.hpp"
#include "p2p/messages.hpp"

namespace tutti::p2p {
namespace {

/// Ids tell a transfer from one that had its place before: place in the lower half, times used in
/// the upper.
constexpr std::uint32_t kPlaceBits = 20;
constexpr std::uint32_t kMostPlaces = (1U << kPlaceBits) - 1;

}  // namespace

Messages::~Messages() {
  for (Transfer* transfer : garbage_) destroy(transfer);
  for (auto& peer : peers_) {
    if (!peer) continue;
    peer->listening.reset();
    peer->flushing.reset();
    while (Transfer* transfer = peer->open.pop_front()) {
      transfer->task_.reset();
      if (transfer->released_) destroy(transfer);
    }
    while (Outgoing* packet = peer->queue.pop_front()) FramePool::release(packet);
  }
  for (auto& [id, context] : contexts_) {
    context->guard.reset();
    while (Transfer* transfer = context->wild.pop_front()) {
      if (transfer->released_) destroy(transfer);
    }
    while (Arrival* arrival = context->matcher.first_arrival()) {
      context->matcher.remove(*arrival);
      FramePool::release(arrival);
    }
  }
  engine_.count_sleepers_in(nullptr);
}

// ---- making
// ----------------------------------------------------------------------------------------

Status Messages::check(const Team& team, int rank, int tag, bool wildcards) const noexcept {
  if (fabric_.traits().elided_payload) {
    return Status::error(Code::unsupported, "messages need a simulation with payload");
  }
  if (rank >= team.size() || rank < (wildcards ? kAnySource : 0)) {
    return Status::error(Code::invalid_argument, "no such rank in the team");
  }
  if (tag < (wildcards ? kAnyTag : 0))
    return Status::error(Code::invalid_argument, "a tag is from 0 to 2^31-1");
  return Status::success();
}

void Messages::set_up(Transfer& transfer, Transfer::Kind kind, Team& team, void* buffer,
                      std::size_t bytes, int rank, int tag, SendMode mode) noexcept {
  transfer.context_ = &context_of(team);
  transfer.team_ = &team;
  transfer.buffer_ = static_cast<std::byte*>(buffer);
  transfer.bytes_ = bytes;
  transfer.rank_ = rank;
  transfer.tag_ = tag;
  transfer.kind_ = kind;
  transfer.mode_ = mode;
}

Status Messages::make(Transfer::Kind kind, Team& team, void* buffer, std::size_t bytes, int rank,
                      int tag, SendMode mode, Transfer** out) noexcept {
  TUTTI_TRY(check(team, rank, tag, kind != Transfer::Kind::send));
  void* memory = frames().allocate(sizeof(Transfer));
  if (memory == nullptr) return Status::error(Code::no_memory, "out of memory");
  auto* transfer = new (memory) Transfer();
  set_up(*transfer, kind, team, buffer, bytes, rank, tag, mode);
  *out = transfer;
  return Status::success();
}

void Messages::destroy(Transfer* transfer) noexcept {
  ::operator delete(transfer->copy_, std::nothrow);
  transfer->~Transfer();
  FramePool::release(transfer);
}

void Messages::sweep() noexcept {
  for (Transfer* transfer : garbage_) destroy(transfer);
  garbage_.clear();
}

Status Messages::identify(Transfer& transfer) noexcept {
  std::uint32_t place;
  if (!free_ids_.empty()) {
    place = free_ids_.back();
    free_ids_.pop_back();
  } else {
    if (identified_.size() > kMostPlaces)
      return Status::error(Code::no_memory, "too many large messages at once");
    place = static_cast<std::uint32_t>(identified_.size());
    identified_.push_back(nullptr);
    generations_.push_back(0);
  }
  identified_[place] = &transfer;
  generations_[place] = generations_[place] % ((1U << (32 - kPlaceBits)) - 1) + 1;  // never 0
  transfer.id_ = generations_[place] << kPlaceBits | place;
  return Status::success();
}

Transfer* Messages::identified(std::uint32_t id) noexcept {
  const std::uint32_t place = id & kMostPlaces;
  if (place >= identified_.size() || generations_[place] != id >> kPlaceBits) return nullptr;
  return identified_[place];
}

// ---- beginning
// -------------------------------------------------------------------------------------

/// `watched`: nobody waits in here for it, so that the progress thread may have to.
void Messages::begin(Transfer& transfer, bool watched) noexcept {
  started(transfer);
  transfer.receipt_ = Receipt{};
  transfer.moved_ = 0;
  if (transfer.kind_ == Transfer::Kind::send) {
    begin_send(transfer, watched);
  } else {
    begin_receive(transfer, watched);
  }
}

void Messages::begin_send(Transfer& send, bool watched) noexcept {
  Peer* peer = nullptr;
  const std::int32_t rank = send.team_->job_rank(send.rank_);
  if (const Status status = peer_of(rank, &peer); !status.ok()) return complete(send, status);
  if (!peer->lost.ok()) return complete(send, peer->lost);
  send.peer_ = peer;
  if (rank == fabric_.rank()) return send_to_self(send, *peer, watched);
  // What goes in several packets leaves at once or not at all: copies of it would cost more than
  // the receiver's answer.
  const bool small = send.bytes_ <= std::min(options_.eager, kMostPayload) ||
                     (send.bytes_ <= eager_to(peer) && peer->queue.empty() && peer->connected() &&
                      peer->room_for_message(send.bytes_));
  if (small && peer->affords(send.bytes_, options_.allowance)) return send_eager(send, *peer);
  if (send.mode_ == SendMode::buffered) return send_copy(send, watched);
  if (small) ++counts_.deferred;
  start_rendezvous(send, *peer);
  if (watched && large(send) && send.active()) watch(send);
}

/// A buffered send that cannot leave at once: a copy is sent in the background.
void Messages::send_copy(Transfer& send, bool watched) noexcept {
  Transfer* background = nullptr;
  Status status = make(Transfer::Kind::send, *send.team_, nullptr, send.bytes_, send.rank_,
                       send.tag_, SendMode::standard, &background);
  if (status.ok()) {
    background->copy_ = static_cast<std::byte*>(::operator new(send.bytes_ + 1, std::nothrow));
    background->buffer_ = background->copy_;
    background->released_ = true;
    if (background->copy_ == nullptr) {
      destroy(background);
      status = Status::error(Code::no_memory, "no memory for a buffered message");
    } else {
      copy_bytes(background->copy_, send.buffer_, send.bytes_);
      begin(*background, watched);
    }
  }
  complete(send, status);
}

void Messages::send_to_self(Transfer& send, Peer& self, bool watched) noexcept {
  Header header = header_of(send, PacketKind::eager, 0);
  if (Transfer* receive = send.context_->matcher.take_posted(send.rank_, send.tag_)) {
    describe(header, *receive);
    copy_bytes(receive->buffer_, send.buffer_, receive->wanted_);
    complete(*receive, Status::success());
    return complete(send, Status::success());
  }
  // What nobody waits for is copied as long as that is not too much; else it stays where it is.
  const bool copied = send.mode_ != SendMode::synchronous && !large(send) &&
                      self.charged - self.delivered + cost_of(send.bytes_) <= options_.allowance;
  if (!copied && send.mode_ == SendMode::buffered) return send_copy(send, watched);
  header.payload = copied ? static_cast<std::uint16_t>(send.bytes_) : 0;
  Arrival* arrival = keep(*send.context_, self, header, copied ? send.buffer_ : nullptr);
  if (arrival == nullptr)
    return complete(send, Status::error(Code::no_memory, "no memory for a message to oneself"));
  if (copied) {
    self.charged += cost_of(send.bytes_);
    return complete(send, Status::success());
  }
  arrival->local = &send;
  self.add_open(send);
  send.open_ = true;
}

void Messages::begin_receive(Transfer& receive, bool watched) noexcept {
  receive.peer_ = nullptr;
  // Talking to a peer for the first time takes in what it has sent already, so this comes before
  // the matching.
  Peer* peer = nullptr;
  Status status;
  if (receive.rank_ != kAnySource) status = peer_of(receive.team_->job_rank(receive.rank_), &peer);
  if (!status.ok()) return complete(receive, status);
  Matcher& matcher = receive.context_->matcher;
  const bool probes = receive.kind_ == Transfer::Kind::probe;
  Arrival* const arrival = probes ? nullptr : matcher.find(receive.rank_, receive.tag_);
  if (arrival != nullptr) {
    matcher.remove(*arrival);
    consume(arrival, receive);
  } else if (receive.rank_ == kAnySource) {
    Context& context = *receive.context_;
    in_use_ = true;  // somebody may call, though this rank has called nobody
    if (!context.members.broken.ok()) return complete(receive, context.members.broken);
    if (context.guard.done()) {
      context.guard = guard(context);
      context.guard.start();
    }
    context.members.background = false;
    context.wild.push_back(receive);
    receive.wild_ = true;
    if (!probes) matcher.post(receive);
  } else {
    if (!peer->lost.ok()) return complete(receive, peer->lost);
    receive.peer_ = peer;
    peer->add_open(receive);
    receive.open_ = true;
    if (!probes) matcher.post(receive);
  }
  if (watched && large(receive) && receive.active()) watch(receive);
}

/// From now on a request to send raises an interrupt here: dynamic interrupt requests (RNDV-2006).
/// For large transfers only: their entries hold the lock, which is needed as soon as there is a
/// progress thread.
void Messages::watch(Transfer& transfer) noexcept {
  const bool in_parts =
      transfer.kind_ == Transfer::Kind::send;  // all others need nothing of their sender
  if (options_.protocol != Protocol::read_interrupt || transfer.pending_ ||
      (in_parts && transfer.exposed_)) {
    return;
  }
  transfer.pending_ = true;
  engine_.operation_started();
}

// ---- end
// -------------------------------------------------------------------------------------------

void Messages::complete(Transfer& transfer, Status status) noexcept {
  if (transfer.posted_) transfer.context_->matcher.remove(transfer);
  if (transfer.open_) {
    transfer.peer_->remove_open(transfer);
    transfer.open_ = false;
  }
  if (transfer.wild_) {
    transfer.context_->wild.remove(transfer);
    transfer.context_->members.background = transfer.context_->wild.empty();
    transfer.wild_ = false;
  }
  if (transfer.id_ != 0) {
    const std::uint32_t place = transfer.id_ & kMostPlaces;
    identified_[place] = nullptr;
    free_ids_.push_back(place);
    transfer.id_ = 0;
  }
  if (transfer.exposed_) {
    fabric_.withdraw(transfer.region_);
    transfer.exposed_ = false;
  }
  if (transfer.peer_ != nullptr && transfer.peer_->train.receive == &transfer) {
    transfer.peer_->train.receive = nullptr;  // given up: the rest of the message is not taken
    transfer.peer_->deliver(transfer.peer_->train.header.bytes);
  }
  if (transfer.streaming_) {
    --transfer.peer_->streams;
    transfer.streaming_ = false;
  }
  transfer.running_ = false;
  transfer.withdrawing_ = false;
  if (!status.ok()) transfer.receipt_.status = status;
  if (transfer.pending_) {
    transfer.pending_ = false;
    engine_.operation_finished();
  }
  if (transfer.active()) --unfinished_;
  const bool released = transfer.released_;
  transfer.ended_.store(transfer.started_, std::memory_order_release);
  engine_.moved_on();
  if (released) garbage_.push_back(&transfer);
}

// ---- waiting
// ---------------------------------------------------------------------------------------

/// Takes what has arrived, from one peer or (nullptr) from any. True when there was something.
bool Messages::poll(Peer* peer) noexcept {
  if (peer != nullptr) {
    if (!peer->accepted() || !peer->arrived()) return false;
    return drain(*peer);
  }
  bool any = false;
  for (std::size_t i = 0; i < inbound_.size(); ++i) {
    if (!inbound_[i]->arrived()) continue;
    any = drain(*inbound_[i]) || any;
  }
  return any;
}

/// Waits until `done()`: looks at the flags itself for a while, then leaves it to the engine.
template <class Done>
void Messages::wait_for(Done done, Peer* peer, Engine::Guard& guard) noexcept {
  for (std::uint32_t spins = engine_.policy().spins; spins != 0; --spins) {
    if (poll(peer)) {
      while (!done() && engine_.poll()) {
      }
    }
    if (done()) return;
    cpu_pause();
  }
  engine_.wait_until(done, guard);
}

Status Messages::send(Team& team, const void* data, std::size_t bytes, int destination, int tag,
                      SendMode mode) noexcept {
  Entry guard(*this);
  if (mode != SendMode::synchronous && leave(team, data, bytes, destination, tag))
    return Status::success();
  use();
  TUTTI_TRY(check(team, destination, tag, false));
  Transfer transfer;
  set_up(transfer, Transfer::Kind::send, team, const_cast<void*>(data), bytes, destination, tag,
         mode);
  begin(transfer, false);
  if (transfer.active()) wait_for([&] { return !transfer.active(); }, transfer.peer_, guard);
  return transfer.receipt_.status;
}

bool Messages::send_now(Team& team, const void* data, std::size_t bytes, int destination,
                        int tag) noexcept {
  Entry guard(*this);
  return leave(team, data, bytes, destination, tag);
}

Receipt Messages::receive(Team& team, void* buffer, std::size_t room, int source,
                          int tag) noexcept {
  Entry guard(*this);
  use();
  if (const Status status = check(team, source, tag, true); !status.ok()) return {.status = status};
  Transfer transfer;
  set_up(transfer, Transfer::Kind::receive, team, buffer, room, source, tag, SendMode::standard);
  begin(transfer, false);
  if (transfer.active()) wait_for([&] { return !transfer.active(); }, transfer.peer_, guard);
  return transfer.receipt_;
}

Receipt Messages::exchange(Team& team, const void* data, std::size_t bytes, int destination,
                           int send_tag, void* buffer, std::size_t room, int source,
                           int receive_tag) noexcept {
  Entry guard(*this);
  use();
  Status status = check(team, destination, send_tag, false);
  if (status.ok()) status = check(team, source, receive_tag, true);
  if (!status.ok()) return {.status = status};
  Transfer receiving, sending;
  set_up(receiving, Transfer::Kind::receive, team, buffer, room, source, receive_tag,
         SendMode::standard);
  set_up(sending, Transfer::Kind::send, team, const_cast<void*>(data), bytes, destination, send_tag,
         SendMode::standard);
  begin(receiving, false);
  begin(sending, false);
  const auto over = [&] { return !receiving.active() && !sending.active(); };
  if (!over()) wait_for(over, nullptr, guard);
  if (receiving.receipt_.status.ok()) receiving.receipt_.status = sending.receipt_.status;
  return receiving.receipt_;
}

Status Messages::prepare_send(Team& team, const void* data, std::size_t bytes, int destination,
                              int tag, SendMode mode, Transfer** out) noexcept {
  Entry guard(*this);
  use();
  return make(Transfer::Kind::send, team, const_cast<void*>(data), bytes, destination, tag, mode,
              out);
}

Status Messages::prepare_receive(Team& team, void* buffer, std::size_t room, int source, int tag,
                                 Transfer** out) noexcept {
  Entry guard(*this);
  use();
  return make(Transfer::Kind::receive, team, buffer, room, source, tag, SendMode::standard, out);
}

Status Messages::restart(Transfer& transfer) noexcept {
  if (transfer.active()) return Status::error(Code::invalid_argument, "the transfer is active");
  Entry guard(*this);
  if (!garbage_.empty()) sweep();
  begin_watched(transfer, guard);
  return Status::success();
}

/// A transfer for which nobody waits in here.
void Messages::begin_watched(Transfer& transfer, Engine::Guard& guard) noexcept {
  // There may be a progress thread from now on.
  if (transfer.bytes_ > eager_to(nullptr)) guard.escalate();
  begin(transfer, true);
}

Status Messages::start_send(Team& team, const void* data, std::size_t bytes, int destination,
                            int tag, SendMode mode, Transfer** out) noexcept {
  Entry guard(*this);
  use();
  TUTTI_TRY(make(Transfer::Kind::send, team, const_cast<void*>(data), bytes, destination, tag, mode,
                 out));
  begin_watched(**out, guard);
  return Status::success();
}

Status Messages::start_receive(Team& team, void* buffer, std::size_t room, int source, int tag,
                               Transfer** out) noexcept {
  Entry guard(*this);
  use();
  TUTTI_TRY(
      make(Transfer::Kind::receive, team, buffer, room, source, tag, SendMode::standard, out));
  begin_watched(**out, guard);
  return Status::success();
}

bool Messages::test(Transfer& transfer, Receipt* out) noexcept {
  if (transfer.active()) {
    Entry guard(*this);
    poll(nullptr);
    while (transfer.active() && engine_.poll()) {
    }
    if (transfer.active()) engine_.glance();
    if (transfer.active()) return false;
  }
  *out = transfer.receipt_;
  return true;
}

Receipt Messages::wait(Transfer& transfer) noexcept {
  if (transfer.active()) {
    Entry guard(*this);
    wait_for([&] { return !transfer.active(); }, transfer.peer_, guard);
  }
  return transfer.receipt_;
}

void Messages::release(Transfer* transfer) noexcept {
  if (transfer == nullptr) return;
  Engine::Guard guard(engine_);
  transfer->released_ = true;
  if (!transfer->active()) destroy(transfer);
}

Engine::Reached Messages::ended(Transfer& transfer) noexcept {
  return engine_.reached(transfer.ended_, transfer.started_, nobody_);
}

void Messages::finish_sending(const Team* team) noexcept {
  if (!in_use()) return;
  Engine::Guard guard(engine_);
  engine_.wait_until(
      [this, team] {
        return std::none_of(peers_.begin(), peers_.end(), [this, team](const auto& peer) {
          if (!peer || (team == nullptr && peer->rank == fabric_.rank())) return false;
          if (!peer->queue.empty()) return true;
          for (Transfer* open = peer->open.first(); open != nullptr;
               open = peer->open.next(*open)) {
            if (open->released_ && open->kind_ == Transfer::Kind::send &&
                (team == nullptr || open->team_ == team))
              return true;
          }
          return false;
        });
      },
      guard);
}

bool Messages::cover() noexcept {
  if (!in_use() || fabric_.traits().virtual_time) return false;
  Engine::Guard guard(engine_);
  if (unfinished_ == 0 && queued_ == 0) return false;
  guard.escalate();
  engine_.cover();
  return true;
}

/// Nobody need come in here again for what waits in the queues.
void Messages::cover_queue(Engine::Guard& guard) noexcept {
  if (fabric_.traits().virtual_time) return;
  guard.escalate();
  queue_covered_ = true;
  engine_.cover();
}

void Messages::left_queue(Outgoing* packet) noexcept {
  FramePool::release(packet);
  if (--queued_ != 0 || !queue_covered_) return;
  queue_covered_ = false;
  engine_.uncover();
}

// ---- cancellation
// ----------------------------------------------------------------------------------

void Messages::cancel(Transfer& transfer) noexcept {
  if (!transfer.active()) return;
  Entry guard(*this);
  if (!transfer.active()) return;
  if (transfer.kind_ == Transfer::Kind::receive) {
    if (!transfer.posted_) return;  // matched: it will be completed
    transfer.receipt_.cancelled = true;
    return complete(transfer, Status::success());
  }
  Peer& peer = *transfer.peer_;
  for (Outgoing* packet = peer.queue.first(); packet != nullptr;
       packet = peer.queue.next(*packet)) {
    if (packet->header.kind > PacketKind::request_to_send ||
        packet->header.transfer != transfer.id_)
      continue;
    if (packet->header.kind != PacketKind::request_to_send)
      peer.charged -= cost_of(packet->header.payload);
    peer.queue.remove(*packet);
    left_queue(packet);
    transfer.receipt_.cancelled = true;
    return complete(transfer, Status::success());
  }
  if (peer.rank == fabric_.rank()) {
    Matcher& matcher = transfer.context_->matcher;
    Arrival* arrival = matcher.first_arrival();
    while (arrival != nullptr && arrival->local != &transfer) arrival = arrival->in_context.next;
    if (arrival == nullptr) return;  // taken by a matched probe
    matcher.remove(*arrival);
    FramePool::release(arrival);
    transfer.receipt_.cancelled = true;
    return complete(transfer, Status::success());
  }
  if (transfer.id_ == 0 || transfer.running_ || transfer.withdrawing_) return;
  transfer.withdrawing_ = true;
  Header header = header_of(transfer, PacketKind::withdraw, 0);
  header.payload = 0;
  post(peer, header, nullptr);
}

// ---- probes
// ----------------------------------------------------------------------------------------

/// Nothing waits for the message that a probe looks for: whether it can still come is looked up
/// here, now and then. True when it cannot.
bool Messages::polled_in_vain(Team& team, int source, Receipt* out) noexcept {
  if (!engine_.glance()) return false;
  const std::int32_t rank = source == kAnySource ? -1 : team.job_rank(source);
  const Membership one{&rank, 1, {}};
  const Status status = engine_.health(source == kAnySource ? context_of(team).members : one);
  if (status.ok()) return false;
  *out = {.status = status};
  return true;
}

bool Messages::take_now(Team& team, int source, int tag, Receipt* out, Arrival** message) noexcept {
  Entry guard(*this);
  use();
  if (const Status status = check(team, source, tag, true); !status.ok()) {
    *out = {.status = status};
    return true;
  }
  Matcher& matcher = context_of(team).matcher;
  Arrival* arrival = matcher.find(source, tag);
  if (arrival == nullptr) {
    poll(nullptr);
    while (engine_.poll()) {
    }
    arrival = matcher.find(source, tag);
  }
  if (arrival == nullptr) return polled_in_vain(team, source, out);
  *out = Receipt{{},
                 static_cast<int>(arrival->header.source),
                 arrival->header.tag,
                 arrival->header.bytes,
                 false};
  if (message != nullptr) {
    matcher.remove(*arrival);
    *message = arrival;
  }
  return true;
}

Receipt Messages::take(Team& team, int source, int tag, Arrival** message) noexcept {
  Entry guard(*this);
  use();
  if (const Status status = check(team, source, tag, true); !status.ok()) return {.status = status};
  Matcher& matcher = context_of(team).matcher;
  Arrival* arrival = matcher.find(source, tag);
  if (arrival == nullptr) {
    // Stands for the probe where it is looked up who still waits for a peer.
    Transfer probing;
    set_up(probing, Transfer::Kind::probe, team, nullptr, 0, source, tag, SendMode::standard);
    begin(probing, false);
    wait_for(
        [&] {
          arrival = matcher.find(source, tag);
          return arrival != nullptr || !probing.active();
        },
        probing.peer_, guard);
    if (probing.active()) complete(probing, Status::success());
    if (arrival == nullptr) return probing.receipt_;
  }
  const Receipt found{{},
                      static_cast<int>(arrival->header.source),
                      arrival->header.tag,
                      arrival->header.bytes,
                      false};
  if (message != nullptr) {
    matcher.remove(*arrival);
    *message = arrival;
  }
  return found;
}

bool Messages::probe_now(Team& team, int source, int tag, Receipt* out) noexcept {
  return take_now(team, source, tag, out, nullptr);
}

Receipt Messages::probe(Team& team, int source, int tag) noexcept {
  return take(team, source, tag, nullptr);
}

Status Messages::start_receive_taken(Arrival* message, void* buffer, std::size_t room,
                                     Transfer** out) noexcept {
  if (message == nullptr) return Status::error(Code::invalid_argument, "no message");
  Entry guard(*this);
  guard.escalate();
  Transfer* transfer = nullptr;
  TUTTI_TRY(make(Transfer::Kind::receive, *message->context->team, buffer, room,
                 static_cast<int>(message->header.source), message->header.tag, SendMode::standard,
                 &transfer));
  started(*transfer);
  consume(message, *transfer);
  if (large(*transfer) && transfer->active()) watch(*transfer);
  *out = transfer;
  return Status::success();
}

Receipt Messages::receive_taken(Arrival* message, void* buffer, std::size_t room) noexcept {
  if (message == nullptr) return {.status = Status::error(Code::invalid_argument, "no message")};
  Entry guard(*this);
  Transfer transfer;
  set_up(transfer, Transfer::Kind::receive, *message->context->team, buffer, room,
         static_cast<int>(message->header.source), message->header.tag, SendMode::standard);
  started(transfer);
  consume(message, transfer);
  if (transfer.active()) wait_for([&] { return !transfer.active(); }, transfer.peer_, guard);
  return transfer.receipt_;
}

}  // namespace tutti::p2p
