// Point-to-point messages of one rank: matching, eager messages and three rendezvous protocols
// (RNDV-2006).
//
// Small messages are sent at once, into the receiver's memory, as long as the receiver has room for
// what it does not expect; else, and above Options::eager, the sender only says that there is a
// message and how its data will move, and the receiver answers when a receive takes it. So a
// receiver's memory is bounded, whatever is sent.
//
// Messages of one sender and one team are matched in the order in which they were sent (MPI 4.1,
// section 3.5); all packets of a pair of ranks travel in one order. Everything runs in tasks of the
// engine: whoever is inside moves everything on, and the progress thread does while large receives
// are outstanding.
//
// Thread-safety: as Job. A Transfer belongs to one thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"
#include "p2p/matching.hpp"
#include "p2p/peer.hpp"
#include "p2p/transfer.hpp"
#include "team/team.hpp"

namespace tutti::p2p {

struct Options {
  /// Largest message that is sent at once; of ranks that do not map each other, kMostPayload.
  std::size_t eager = kMostEager;
  std::uint64_t allowance = std::uint64_t{1}
                            << 20;  // cost of unexpected eager messages from one sender
  Protocol protocol = Protocol::read_interrupt;  // of larger ones
};

/// What has happened so far, for reports and tests.
struct Counts {
  std::uint64_t eager = 0;  // sent, by protocol
  std::uint64_t write = 0;
  std::uint64_t read = 0;  // with and without interrupt
  std::uint64_t pipelined = 0;
  std::uint64_t unexpected = 0;  // messages that came before their receives
  std::uint64_t deferred =
      0;  // eager ones that became rendezvous because the receiver had no room for them
  std::uint64_t queued = 0;    // packets that had to wait for their turn
  std::size_t held_bytes = 0;  // data of unexpected messages held at present
};

/// Messages of one team.
struct Context {
  std::uint64_t id[2] = {0, 0};
  Team* team = nullptr;  // nullptr: messages have come, but this rank has not used the team yet
  Matcher matcher;
  Membership members;                       // for receives from anybody
  List<Transfer, &Transfer::in_peer> wild;  // these
  Task guard;                               // ends them when a member dies
};

class Messages {
 public:
  Messages(Engine& engine, ArenaHeap& heap, const Options& options) noexcept;
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Lays out the table by which ranks find each other. Before anything else is allocated in the
  /// arena, so that it is at the same place on all ranks.
  Status open() noexcept;

  // ---- blocking. Ranks are ranks in the team; tags are 0 ... 2^31-1.

  /// Sends `bytes` from `data` to `destination`.
  Status send(Team& team, const void* data, std::size_t bytes, int destination, int tag,
              SendMode mode = SendMode::standard) noexcept;
  /// Receives at most `room` bytes. Sources and tags may be kAnySource and kAnyTag.
  Receipt receive(Team& team, void* buffer, std::size_t room, int source, int tag) noexcept;
  /// Sends and receives at once, as MPI_Sendrecv.
  Receipt exchange(Team& team, const void* data, std::size_t bytes, int destination, int send_tag,
                   void* buffer, std::size_t room, int source, int receive_tag) noexcept;

  /// Sends a message that can leave at once: one small enough, to a rank that has room for it and
  /// has been talked to before. False: nothing was done, and send() or start_send() will say more.
  /// For standard and ready sends; without a transfer, so it costs less than start_send().
  bool send_now(Team& team, const void* data, std::size_t bytes, int destination, int tag) noexcept;

  // ---- non-blocking and persistent. `*out` is the caller's until release(), and is set only on
  // success. The outcome of a transfer that could not be carried out is in its receipt.

  Status start_send(Team& team, const void* data, std::size_t bytes, int destination, int tag,
                    SendMode mode, Transfer** out) noexcept;
  Status start_receive(Team& team, void* buffer, std::size_t room, int source, int tag,
                       Transfer** out) noexcept;
  /// An inactive transfer, which restart() starts any number of times.
  Status prepare_send(Team& team, const void* data, std::size_t bytes, int destination, int tag,
                      SendMode mode, Transfer** out) noexcept;
  Status prepare_receive(Team& team, void* buffer, std::size_t room, int source, int tag,
                         Transfer** out) noexcept;
  Status restart(Transfer& transfer) noexcept;
  /// Progresses everything once. True when the transfer is over (or inactive); `*out` is then its
  /// receipt.
  bool test(Transfer& transfer, Receipt* out) noexcept;
  Receipt wait(Transfer& transfer) noexcept;
  /// Legal while the transfer is active: it is then completed without the host, whose buffer it
  /// still uses.
  void release(Transfer* transfer) noexcept;
  /// Marks it for cancellation. It ends soon, in one way or the other; Receipt::cancelled says
  /// which.
  void cancel(Transfer& transfer) noexcept;

  // ---- probes

  /// True when there is a message that such a receive would take; `*out` describes it.
  bool probe_now(Team& team, int source, int tag, Receipt* out) noexcept;
  Receipt probe(Team& team, int source, int tag) noexcept;
  /// As probe_now, and takes the message out of the matching: only `*message` receives it.
  bool take_now(Team& team, int source, int tag, Receipt* out, Arrival** message) noexcept;
  Receipt take(Team& team, int source, int tag, Arrival** message) noexcept;
  /// Receives a message that was taken. Gives it up.
  Receipt receive_taken(Arrival* message, void* buffer, std::size_t room) noexcept;
  Status start_receive_taken(Arrival* message, void* buffer, std::size_t room,
                             Transfer** out) noexcept;

  // ---- for whoever drives the engine

  /// In a task: awaits the end of a transfer. The outcome is in its receipt.
  Engine::Reached ended(Transfer& transfer) noexcept;
  /// Answers peers that call from now on, also while this rank has not used messages itself.
  void answer() noexcept { listen_to_calls(); }
  /// Drops a message that was taken and that nobody will receive.
  void discard(Arrival* message) noexcept;
  /// Before the ranks part, all of them together: what is under way comes to its end, also what the
  /// host has given up; receives that nobody answers are cancelled, and sends that nobody receives
  /// fail. `meet(self)` returns when all ranks have called it, progressing this job meanwhile;
  /// false when it cannot: then nobody is waited for. The host begins nothing any more.
  void conclude(bool (*meet)(void*), void* self) noexcept;
  /// Before the rank leaves: waits until what it has sent without waiting for it has left.
  /// `team`: only that. Thread-safe.
  void finish_sending(const Team* team = nullptr) noexcept;
  /// Before a call that may block outside of tutti until others have moved on, who may wait for
  /// what is under way here. True when there is such: the progress thread looks after it until
  /// uncover().
  bool cover() noexcept;
  void uncover() noexcept { engine_.uncover(); }
  /// Something may be under way that progresses only when this rank is inside. Any thread.
  bool in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
  /// The team is given up by this rank: its transfers are over; messages that nobody has received
  /// are dropped.
  void forget(Team& team) noexcept;

  const Counts& counts() const noexcept { return counts_; }
  const Options& options() const noexcept { return options_; }
  FramePool& frames() noexcept { return engine_.frames(); }
  /// Shared memory for each rank that this one has received from, and per rank of the job.
  std::size_t bytes_per_peer() const noexcept {
    return inbound_bytes(site_.ring) + sizeof(CreditLine);
  }

 private:
  struct ContextHash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& id) const noexcept {
      return static_cast<std::size_t>((id.first ^ (id.second * 0x9e3779b97f4a7c15)) *
                                      0xbf58476d1ce4e5b9);
    }
  };

  // connect.cpp: peers and contexts
  Status peer_of(std::int32_t rank, Peer** out) noexcept;
  Context& context_of(Team& team) noexcept;
  Context& context_of(const std::uint64_t id[2]) noexcept;
  void use() noexcept;
  void listen_to_calls() noexcept;
  void accept(Peer& peer) noexcept;
  Task answer_calls() noexcept;
  Task listen(Peer& peer) noexcept;
  Task flush(Peer& peer) noexcept;
  Task guard(Context& context) noexcept;
  void fail_peer(Peer& peer, Status why) noexcept;
  void fail_wild(Context& context, Status why) noexcept;

  /// Held by every call that may leave packets behind: from then on the progress thread sends them.
  class Entry;
  void started(Transfer& transfer) noexcept {
    ++transfer.started_;
    ++unfinished_;
  }
  void left_queue(Outgoing* packet) noexcept;

  // conclude.cpp: how ranks part
  bool all_has_left() const noexcept;
  void say_last() noexcept;
  void say_last_to(Peer& peer) noexcept;
  void hear_last() noexcept;
  void give_up(Transfer& receive) noexcept;
  void end_unmatched() noexcept;
  void drop_arrivals(Context& context) noexcept;

  void cover_queue(Engine::Guard& guard) noexcept;

  // transfers.cpp: their beginning and end
  Status check(const Team& team, int rank, int tag, bool wildcards) const noexcept;
  void set_up(Transfer& transfer, Transfer::Kind kind, Team& team, void* buffer, std::size_t bytes,
              int rank, int tag, SendMode mode) noexcept;
  Status make(Transfer::Kind kind, Team& team, void* buffer, std::size_t bytes, int rank, int tag,
              SendMode mode, Transfer** out) noexcept;
  /// Largest message that leaves for the peer (nullptr: unknown) at once.
  std::size_t eager_to(const Peer* peer) const noexcept {
    return std::min(options_.eager, peer != nullptr && peer->mapped != nullptr
                                        ? most_eager(peer->ring_there)
                                        : kMostPayload);
  }
  /// It may take a while, or its other side may have to wait for it: worth an interrupt. Of what a
  /// ring holds only a few times, the sender may announce any, whatever its size.
  bool large(const Transfer& transfer) const noexcept {
    const bool receive = transfer.kind_ == Transfer::Kind::receive;
    return transfer.bytes_ >
           std::min(eager_to(receive ? transfer.peer_ : nullptr), most_eager(kRingBytes));
  }
  void begin(Transfer& transfer, bool watched) noexcept;
  void begin_watched(Transfer& transfer, Engine::Guard& guard) noexcept;
  void begin_send(Transfer& send, bool watched) noexcept;
  void begin_receive(Transfer& receive, bool watched) noexcept;
  void send_copy(Transfer& send, bool watched) noexcept;
  void send_to_self(Transfer& send, Peer& self, bool watched) noexcept;
  void watch(Transfer& transfer) noexcept;
  void complete(Transfer& transfer, Status status) noexcept;
  void destroy(Transfer* transfer) noexcept;
  void sweep() noexcept;
  Status identify(Transfer& transfer) noexcept;
  Transfer* identified(std::uint32_t id) noexcept;
  template <class Done>
  void wait_for(Done done, Peer* peer, Engine::Guard& guard) noexcept;
  bool poll(Peer* peer) noexcept;

  bool polled_in_vain(Team& team, int source, Receipt* out) noexcept;

  // delivery.cpp: packets
  Header header_of(const Transfer& send, PacketKind kind, std::uint8_t detail) const noexcept;
  bool leave(Team& team, const void* data, std::size_t bytes, int destination, int tag) noexcept;
  void post(Peer& peer, const Header& header, const void* payload) noexcept;
  void enqueue(Peer& peer, const Header& header, const void* payload) noexcept;
  void send_eager(Transfer& send, Peer& peer) noexcept;
  bool drain(Peer& peer) noexcept;
  void handle(Peer& peer, const Packet& packet) noexcept;
  void handle_envelope(Peer& peer, const Packet& packet) noexcept;
  void handle_withdraw(Peer& peer, const Header& header) noexcept;
  Arrival* keep(Context& context, Peer& peer, const Header& header, const void* payload) noexcept;
  void drop(Arrival* arrival) noexcept;
  void describe(const Header& header, Transfer& receive) noexcept;
  void receive_eager(Transfer& receive, Peer& peer, const Header& header,
                     const void* payload) noexcept;
  void received(Transfer& receive, Peer& peer, const Header& header) noexcept;
  void handle_more(Peer& peer, const Packet& packet) noexcept;
  void depend(Transfer& receive, Peer& peer) noexcept;
  void consume(Arrival* arrival, Transfer& receive) noexcept;
  bool interrupts(const Header& header) const noexcept;

  // rendezvous.cpp: the three protocols
  void start_rendezvous(Transfer& send, Peer& peer) noexcept;
  void accept_rendezvous(Transfer& receive, Peer& peer, const Header& header,
                         const Key& key) noexcept;
  void clear(Transfer& receive, Peer& peer, std::uint32_t sender, bool direct) noexcept;
  void handle_clearance(Transfer& send, Peer& peer, const Clearance& clearance) noexcept;
  void handle_part(Transfer& receive, Peer& peer, const Packet& packet) noexcept;
  Task read(Transfer& receive, Peer& peer, std::uint32_t sender, Key key) noexcept;
  Task write(Transfer& send, Peer& peer, Clearance clearance) noexcept;
  Task send_parts(Transfer& send, Peer& peer, Clearance clearance) noexcept;
  void run(Transfer& transfer, Task task) noexcept;
  void finish(Peer& peer, std::uint32_t transfer, Status status) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  Options options_;
  Site site_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by job rank; made when first talked to
  std::vector<Peer*> inbound_;                // those that have been given an inbound area
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::unique_ptr<Context>, ContextHash>
      contexts_;
  Context* last_context_ = nullptr;         // of the last packet
  std::vector<Transfer*> identified_;       // by the lower half of the id; nullptr: free
  std::vector<std::uint32_t> generations_;  // the upper half
  std::vector<std::uint32_t> free_ids_;
  std::vector<Transfer*> garbage_;  // released and over
  Membership nobody_;               // of waits that depend on no rank
  Task answering_;
  std::uint64_t accepted_ = 0;
  // This rank has sent, received or probed, or was called. Written under the guard, and only ever
  // set; read without it, ordered with nothing: who reads it early comes again.
  std::atomic<bool> in_use_{false};
  std::size_t unfinished_ = 0;  // transfers that have been started and are not over
  std::size_t queued_ = 0;      // packets in the queues of peers
  bool queue_covered_ = false;  // the progress thread looks after these
  bool last_said_ = false;      // this rank sends no envelopes any more: conclude()
  Counts counts_;
};

class Messages::Entry : public Engine::Guard {
 public:
  explicit Entry(Messages& messages) noexcept
      : Engine::Guard(messages.engine_), messages_(messages) {}
  ~Entry() {
    if (messages_.queued_ != 0 && !messages_.queue_covered_) [[unlikely]]
      messages_.cover_queue(*this);
  }

 private:
  Messages& messages_;
};

}  // namespace tutti::p2p
