// Point-to-point messages of one rank: matching, eager messages and three rendezvous protocols
// (RNDV-2006).
//
// Small messages are sent at once, into the receiver's memory, as long as the receiver has room for
// what it does not expect; else, and above Options::eager, the sender only says that there is a
// message and how its data will move, and the receiver answers when a receive takes it. So a
// receiver's memory is bounded, whatever is sent.
//
// Messages of one sender and one group are matched in the order in which they were sent (MPI 4.1,
// section 3.5); all packets of a pair of ranks travel in one order. Everything runs in tasks of the
// engine: whoever is inside moves everything on, and the progress thread does while large receives
// are outstanding.
//
// Messages is what the host calls; it takes the lock and checks arguments. What happens then:
//
//   sends, receives, probes   how they begin, and how they are taken back
//   eager, rendezvous         the two ways of a message, each from one end to the other
//   contexts, matching        which receive takes which message; unexpected: those without one
//   peers, outbox, delivery   whom this rank talks to, what leaves to them, what comes from them
//   transfers                 the life of a send or receive, from its making to its end
//   parting                   how ranks leave
//
// Thread-safety: as Job. A Transfer belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"
#include "p2p/backlog.hpp"
#include "p2p/contexts.hpp"
#include "p2p/delivery.hpp"
#include "p2p/eager.hpp"
#include "p2p/options.hpp"
#include "p2p/outbox.hpp"
#include "p2p/parting.hpp"
#include "p2p/peers.hpp"
#include "p2p/probes.hpp"
#include "p2p/receives.hpp"
#include "p2p/rendezvous.hpp"
#include "p2p/sends.hpp"
#include "p2p/transfer.hpp"
#include "p2p/transfers.hpp"
#include "p2p/unexpected.hpp"
#include "team/group.hpp"

namespace tutti::p2p {

class Messages {
 public:
  Messages(Engine& engine, ArenaHeap& heap, const Options& options) noexcept;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Lays out the table by which ranks find each other. Before anything else is allocated in the
  /// arena, so that it is at the same place on all ranks.
  Status open() noexcept { return peers_.open(); }

  // ---- blocking. Ranks are ranks in the group; tags are 0 ... 2^31-1.

  /// Sends `bytes` from `data` to `destination`.
  Status send(Group& group, const void* data, std::size_t bytes, int destination, int tag,
              SendMode mode = SendMode::standard) noexcept;
  /// Receives at most `room` bytes. Sources and tags may be kAnySource and kAnyTag.
  Receipt receive(Group& group, void* buffer, std::size_t room, int source, int tag) noexcept;
  /// Sends and receives at once, as MPI_Sendrecv.
  Receipt exchange(Group& group, const void* data, std::size_t bytes, int destination, int send_tag,
                   void* buffer, std::size_t room, int source, int receive_tag) noexcept;

  /// Sends a message that can leave at once: one small enough, to a rank that has room for it and
  /// has been talked to before. False: nothing was done, and send() or start_send() will say more.
  /// For standard and ready sends; without a transfer, so it costs less than start_send().
  bool send_now(Group& group, const void* data, std::size_t bytes, int destination,
                int tag) noexcept {
    Entry guard(engine_, backlog_);
    asked_by_ = nullptr;
    return !sends_.may_cross(group, bytes, destination) &&
           eager_.send_now(group, data, bytes, destination, tag);
  }

  // ---- non-blocking and persistent. `*out` is the caller's until release(), and is set only on
  // success. The outcome of a transfer that could not be carried out is in its receipt.

  Status start_send(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                    SendMode mode, Transfer** out) noexcept;
  Status start_receive(Group& group, void* buffer, std::size_t room, int source, int tag,
                       Transfer** out) noexcept;
  /// The same. What has come already, all of it, and what there is room for is received at once,
  /// without a transfer: `*out` is then nullptr, and `*at_once`, which must be new, the receipt.
  Status receive_or_start(Group& group, void* buffer, std::size_t room, int source, int tag,
                          Receipt* at_once, Transfer** out) noexcept {
    Entry guard(engine_, backlog_);
    asked_by_ = nullptr;
    transfers_.sweep();
    *out = nullptr;
    if (!receives_.receive_or_post(group, buffer, room, source, tag, at_once, out)) [[unlikely]]
      return start(Wish::receive(group, buffer, room, source, tag), guard, out);
    if (*out == nullptr) taken_at_once();
    return Status::success();
  }
  /// An inactive transfer, which restart() starts any number of times.
  Status prepare_send(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                      SendMode mode, Transfer** out) noexcept;
  Status prepare_receive(Group& group, void* buffer, std::size_t room, int source, int tag,
                         Transfer** out) noexcept;
  Status restart(Transfer& transfer) noexcept;
  /// Progresses everything once. True when the transfer is over (or inactive); `*out` is then its
  /// receipt.
  bool test(Transfer& transfer, Receipt* out) noexcept;
  Receipt wait(Transfer& transfer) noexcept {
    if (transfer.active()) wait_for(transfer);
    return transfer.outcome;
  }
  /// For callers that will wait for several: this one is among them, and they will not leave before
  /// it is over, so both ends of a large message may take part in it.
  void expect(Transfer& transfer) noexcept {
    if (!transfer.waited && transfer.bytes > eager_.most(nullptr) && transfer.active())
      expect_large(transfer);
  }
  /// Legal while the transfer is active: it is then completed without the host, whose buffer it
  /// still uses.
  void release(Transfer* transfer) noexcept {
    if (transfer == nullptr) return;
    Engine::Guard guard(engine_);
    transfers_.release(*transfer);
  }
  /// Marks it for cancellation. It ends soon, in one way or the other; Receipt::cancelled says
  /// which.
  void cancel(Transfer& transfer) noexcept;

  // ---- probes

  /// True when there is a message that such a receive would take; `*out` describes it.
  bool probe_now(Group& group, int source, int tag, Receipt* out) noexcept;
  Receipt probe(Group& group, int source, int tag) noexcept;
  /// As probe_now, and takes the message out of the matching: only `*message` receives it.
  bool take_now(Group& group, int source, int tag, Receipt* out, Arrival** message) noexcept;
  Receipt take(Group& group, int source, int tag, Arrival** message) noexcept;
  /// Receives a message that was taken. Gives it up.
  Receipt receive_taken(Arrival* message, void* buffer, std::size_t room) noexcept;
  Status start_receive_taken(Arrival* message, void* buffer, std::size_t room,
                             Transfer** out) noexcept;
  /// Drops a message that was taken and that nobody will receive.
  void discard(Arrival* message) noexcept;

  // ---- for whoever drives the engine

  /// In a task: awaits the end of a transfer. The outcome is in its receipt.
  Engine::Reached ended(Transfer& transfer) noexcept;
  /// Answers peers that call from now on, also while this rank has not used messages itself.
  void answer() noexcept { peers_.answer(); }
  /// Before the ranks part, all of them together: what is under way comes to its end, also what the
  /// host has given up; receives that nobody answers are cancelled, and sends that nobody receives
  /// fail. The host begins nothing any more.
  void conclude(Meeting& meeting) noexcept { parting_.conclude(meeting); }
  /// Before the rank leaves: waits until what it has sent without waiting for it has left.
  /// `group`: only that. Thread-safe.
  void finish_sending(const Group* group = nullptr) noexcept;
  /// Before a call that may block outside of tutti until others have moved on, who may wait for
  /// what is under way here. True when there is such: the progress thread looks after it until
  /// uncover().
  bool cover() noexcept;
  void uncover() noexcept { engine_.background().uncover(); }
  /// Something may be under way that progresses only when this rank is inside. Any thread.
  bool in_use() const noexcept { return peers_.in_use(); }
  /// The group is given up by this rank: its transfers are over; messages that nobody has received
  /// are dropped.
  void give_up(Group& group) noexcept {
    Engine::Guard guard(engine_);
    forget(group);
  }
  /// The same, for who is under the lock.
  void forget(Group& group) noexcept { parting_.forget(group); }

  const Counts& counts() const noexcept { return counts_; }
  const Options& options() const noexcept { return options_; }
  /// Shared memory for each rank that this one has received from, and per rank of the job.
  std::size_t bytes_per_peer() const noexcept { return peers_.bytes_per_peer(); }

 private:
  void use() noexcept;
  void taken_at_once() noexcept;
  void note_question(const Group& group, const Receipt& receipt, bool by_kernel) noexcept;
  Status check(const Wish& wish) const noexcept;
  Status prepare(const Wish& wish, Transfer** out) noexcept;
  Status start(const Wish& wish, Engine::Guard& guard, Transfer** out) noexcept;
  void begin(Transfer& transfer, bool watched) noexcept;
  void wait_for(Transfer& transfer) noexcept;
  void expect_large(Transfer& transfer) noexcept;
  void begin_watched(Transfer& transfer, Engine::Guard& guard) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  Options options_;
  Counts counts_;
  std::uint32_t taken_ = 0;  // at once
  // Whose message this rank has received last, by a blocking receive, if nothing was begun since.
  Peer* asked_by_ = nullptr;
  std::size_t asked_bytes_ = 0;  // of that message, if there is one
  Membership nobody_;  // of waits that depend on no rank
  Backlog backlog_;
  Transfers transfers_;
  Contexts contexts_;
  Peers peers_;
  Outbox outbox_;
  Unexpected unexpected_;
  Eager eager_;
  Rendezvous rendezvous_;
  Sends sends_;
  Receives receives_;
  Delivery delivery_;
  Probes probes_;
  Parting parting_;
};

}  // namespace tutti::p2p
