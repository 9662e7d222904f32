// The three rendezvous protocols of RNDV-2006, and a fourth for memory that cannot be exposed.
//
//   RDMA Write                       RDMA Read (with interrupt)          in parts
//   sender          receiver         sender          receiver            sender         receiver
//     | --- RTS -------> |             | -- RTS, key ---> | (*)            | --- RTS ------> |
//     | <-- CTS, key --- |             |                  |                | <-- CTS ------- |
//     | === data ======> |             | <=== read ====== |                | --- part -----> | ...
//     | --- FIN -------> |             | <-- FIN -------- |                | --- part -----> |
//
// (*) with interrupt, this wakes the receiver's progress thread, which then reads while both sides
// compute. Where both wait for it inside, the receiver may read one half while the sender writes
// the other (CTS, key and offset; each tells the other with a FIN). Over sockets, where the caller
// of the send waits for it, the head of the message follows the RTS at once, so that the links are
// not idle until the read has come back.
#pragma once

#include <cstdint>

#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "p2p/context.hpp"
#include "p2p/options.hpp"
#include "p2p/outbox.hpp"
#include "p2p/transfers.hpp"

namespace tutti::p2p {

class Rendezvous {
 public:
  Rendezvous(Engine& engine, const Options& options, Transfers& transfers, Outbox& outbox,
             Counts& counts) noexcept
      : engine_(engine),
        fabric_(engine.fabric()),
        options_(options),
        transfers_(transfers),
        outbox_(outbox),
        counts_(counts) {}
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Says that there is a message. The receiver answers once a receive takes it.
  void start(Transfer& send, Peer& peer) noexcept;
  /// A receive has taken a message with this envelope, and its head, if it has one.
  void accept(Transfer& receive, Peer& peer, const Header& header,
              const Announcement& said) noexcept;
  /// The receiver says what it wants of the message, and how.
  /// `begin`: where the parts begin.
  void cleared(Transfer& send, Peer& peer, const Clearance& clearance, std::size_t begin) noexcept;
  void receive_part(Transfer& receive, Peer& peer, const Packet& packet) noexcept;
  /// The other side has copied its half of a message, or could not.
  void half_over(Transfer& transfer, Peer& peer, Status status) noexcept;
  /// The caller of the send waits for it inside from now on: tells the receiver, who may want help.
  void wait_for(Transfer& send) noexcept;
  /// A sender has said so. `context`: where its message may still be; nullptr: given up.
  void sender_waits(Context* context, Peer& peer, const Header& header) noexcept;

  FramePool& frames() noexcept { return engine_.frames(); }  // of its tasks
  /// Both ends may copy at the same time, through memory that they share.
  bool have_processors(const Peer& peer) const noexcept;

 private:
  bool may_both_copy(const Transfer& receive, const Peer& peer) const noexcept;
  void clear(Transfer& receive, Peer& peer, std::uint32_t sender, bool direct,
             std::size_t begin = 0) noexcept;
  void post_clearance(Peer& peer, std::uint32_t sender, const Clearance& clearance,
                      std::size_t begin) noexcept;
  bool may_halve(const Transfer& receive, const Peer& peer) const noexcept;
  std::size_t offer_half(Transfer& receive, Peer& peer) noexcept;
  void want_half_in_parts(Transfer& receive, Peer& peer) noexcept;
  std::size_t head_of(const Transfer& send, Peer& peer) const noexcept;
  void send_head(const Transfer& send, Peer& peer, std::size_t head) noexcept;
  Task read(Transfer& receive, Peer& peer, Key key, std::size_t begin) noexcept;
  Task write(Transfer& send, Peer& peer, Clearance clearance, std::size_t begin) noexcept;
  Task send_parts(Transfer& send, Peer& peer, Clearance clearance, std::size_t begin) noexcept;
  void end_sending(Transfer& send, Status status) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  const Options& options_;
  Transfers& transfers_;
  Outbox& outbox_;
  Counts& counts_;
};

}  // namespace tutti::p2p
