#include "p2p/sends.hpp"

#include <new>

#include "base/copy.hpp"
#include "p2p/answers.hpp"
#include "p2p/small_answers.hpp"

namespace tutti::p2p {

Sends::Way Sends::way_of_answer(Peer& asked_by, std::size_t asked, const Group& group,
                                std::size_t bytes, int destination, bool small) noexcept {
  if (destination < 0 || destination >= group.size() ||
      group.job_rank(destination) != asked_by.rank || !rendezvous_.have_processors(asked_by))
    return {};
  const bool first = fabric_.rank() < asked_by.rank;
  if (Answers::suits(bytes) && Answers::suits(asked))
    return {true, asked_by.answers.send(bytes, first, fabric_.now_ns()), {}};
  if (!small || !SmallAnswers::suits(bytes) || !SmallAnswers::suits(asked)) return {};
  const std::optional<Stores> stores = asked_by.small_answers.choose(bytes, first);
  counts_.tried += stores ? 1 : 0;
  return {true, false, stores};
}

void Sends::begin(Transfer& send, bool watched, bool may_cross) noexcept {
  transfers_.start(send);
  Peer* peer = nullptr;
  const std::int32_t rank = send.group->job_rank(send.rank);
  if (const Status status = peers_.find(rank, &peer); !status.ok())
    return transfers_.complete(send, status);
  if (!peer->lost.ok()) return transfers_.complete(send, peer->lost);
  send.peer = peer;
  if (rank == fabric_.rank()) return send_to_self(send, *peer, watched);
  if (may_cross && crosses(send.bytes) && may_read(peer)) {
    transfers_.cross(send);
    const bool first = fabric_.rank() < rank;
    send.by_kernel =
        !options_.tries || peer->crossings.send(send.bytes, first, transfers_.episodes());
  }
  const bool small = !send.by_kernel && eager_.suits(send, *peer);
  if (small && peer->affords(send.bytes, options_.allowance)) return eager_.send(send, *peer);
  if (send.mode == SendMode::buffered) return send_copy(send, watched);
  if (small) ++counts_.deferred;
  rendezvous_.start(send, *peer);
  if (watched && eager_.large(send) && send.active()) transfers_.watch(send);
}

/// The peer may read in the kernel what is sent to it. nullptr: it is not known yet.
bool Sends::may_read(const Peer* peer) const noexcept {
  return peer != nullptr && rendezvous_.have_processors(*peer) && fabric_.traits().user_memory;
}

/// A buffered send that cannot leave at once: a copy is sent in the background.
void Sends::send_copy(Transfer& send, bool watched) noexcept {
  Transfer* background = nullptr;
  const Wish wish = Wish::send(*send.group, nullptr, send.bytes, send.rank, send.tag);
  Status status = transfers_.make(*send.context, wish, &background);
  if (status.ok()) {
    background->copy = static_cast<std::byte*>(::operator new(send.bytes + 1, std::nothrow));
    background->buffer = background->copy;
    background->released = true;
    if (background->copy == nullptr) {
      transfers_.give_back(*background);
      status = Status::error(Code::no_memory, "no memory for a buffered message");
    } else {
      copy_bytes(background->copy, send.buffer, send.bytes);
      begin(*background, watched, false);
    }
  }
  transfers_.complete(send, status);
}

void Sends::send_to_self(Transfer& send, Peer& self, bool watched) noexcept {
  Header header = envelope(send, PacketKind::eager);
  if (Transfer* receive = send.context->matcher.take_posted(send.rank, send.tag)) {
    receive->match(header);
    copy_bytes(receive->buffer, send.buffer, receive->wanted);
    transfers_.complete(*receive, Status::success());
    return transfers_.complete(send, Status::success());
  }
  // What nobody waits for is copied as long as that is not too much; else it stays where it is.
  const bool copied = send.mode != SendMode::synchronous && !eager_.large(send) &&
                      self.charged - self.delivered + cost_of(send.bytes) <= options_.allowance;
  if (!copied && send.mode == SendMode::buffered) return send_copy(send, watched);
  header.payload = copied ? static_cast<std::uint16_t>(send.bytes) : 0;
  Arrival* arrival = unexpected_.keep(*send.context, self, header, copied ? send.buffer : nullptr);
  if (arrival == nullptr) {
    return transfers_.complete(
        send, Status::error(Code::no_memory, "no memory for a message to oneself"));
  }
  if (copied) {
    self.charged += cost_of(send.bytes);
    return transfers_.complete(send, Status::success());
  }
  arrival->local = &send;
  self.add_open(send);
}

void Sends::cancel(Transfer& send) noexcept {
  Peer& peer = *send.peer;
  if (outbox_.take_back(peer, send)) return transfers_.complete_cancelled(send);
  if (peer.rank == fabric_.rank()) return cancel_to_self(send);
  if (send.id == 0 || send.running || send.withdrawing) return;
  send.withdrawing = true;
  Header header = envelope(send, PacketKind::withdraw);
  header.payload = 0;
  outbox_.post(peer, header, nullptr);
}

void Sends::cancel_to_self(Transfer& send) noexcept {
  Matcher& matcher = send.context->matcher;
  Arrival* arrival = matcher.first_arrival();
  while (arrival != nullptr && arrival->local != &send) arrival = arrival->in_context.next;
  if (arrival == nullptr) return;  // taken by a matched probe
  matcher.remove(*arrival);
  FramePool::release(arrival);
  transfers_.complete_cancelled(send);
}

}  // namespace tutti::p2p
