// Eager messages: sent at once, in one packet or a train of them, within what the receiver has room
// for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/store_choice.hpp"
#include "fabric/fabric.hpp"
#include "p2p/contexts.hpp"
#include "p2p/options.hpp"
#include "p2p/outbox.hpp"
#include "p2p/peers.hpp"
#include "p2p/transfers.hpp"
#include "team/copy_small.hpp"

namespace tutti::p2p {

class Eager {
 public:
  Eager(Fabric& fabric, const Options& options, Contexts& contexts, Peers& peers,
        Transfers& transfers, Outbox& outbox, Counts& counts) noexcept
      : fabric_(fabric),
        options_(options),
        contexts_(contexts),
        peers_(peers),
        transfers_(transfers),
        outbox_(outbox),
        counts_(counts) {}
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  // ---- leaving

  /// Largest message that leaves for the peer (nullptr: unknown) at once.
  std::size_t most(const Peer* peer) const noexcept {
    return std::min(options_.eager, peer != nullptr && peer->trains()
                                        ? most_eager(peer->ring_there)
                                        : kMostPayload);
  }
  /// It may take a while, or its other side may have to wait for it: worth an interrupt. Of what a
  /// ring holds only a few times, the sender may announce any, whatever its size; and a train over
  /// sockets comes in only where somebody takes it in.
  bool large(const Transfer& transfer) const noexcept {
    const bool receive = transfer.kind == Transfer::Kind::receive;
    const Peer* const peer = receive ? transfer.peer : nullptr;
    const bool near = peer != nullptr && peer->mapped != nullptr;
    return transfer.bytes > std::min(most(peer), near ? most_eager(kRingBytes) : kMostPayload);
  }
  /// True when the send is to go eagerly, if the peer affords it.
  bool suits(const Transfer& send, Peer& peer) const noexcept;
  /// What is not out of the ordinary in any way is written into the receiver's memory and
  /// forgotten. `stores`: of an answer. False: nothing was done.
  bool send_now(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                std::optional<Stores> stores = {}) noexcept;
  /// One that suits, to a peer that affords it.
  void send(Transfer& send, Peer& peer) noexcept;

  // ---- arriving

  /// Gives a message that has just arrived, all of it, to the receive that takes it.
  void receive_small(Transfer& receive, Peer& peer, const Packet& packet) noexcept {
    receive.match(packet.header);
    fabric_.spend(Work::copy, receive.wanted);
    copy_small(receive.buffer, packet.payload, receive.wanted);
    peer.deliver(packet.header.bytes);
    transfers_.complete_received(receive);
  }
  /// Gives a message that has just arrived, or its first part, to the receive that takes it.
  void receive(Transfer& receive, Peer& peer, const Header& header, const void* payload) noexcept;
  /// The next part of the message before. That message may have been given up meanwhile.
  void receive_more(Peer& peer, const Packet& packet) noexcept;
  /// Copies a message that was kept, all of it, to where there is room for it, and gives it up.
  void take_kept(Arrival* arrival, void* buffer) noexcept;
  /// Gives a message that was kept to the receive that takes it.
  void receive_kept(Transfer& receive, Arrival* arrival) noexcept;
  /// The head of an announced message, which comes next, goes to the receive that has taken it.
  void expect_head(Transfer& receive, Peer& peer, const Header& header, std::size_t head) noexcept;
  /// As much of the head as is kept goes there, and the rest will. Gives the arrival up.
  void take_head(Transfer& receive, Arrival* arrival) noexcept;

 private:
  bool hand_over(Transfer& receive, Arrival* arrival) noexcept;
  void delivered(Peer& peer, const Header& header) noexcept;
  void received(Transfer& receive, Peer& peer, const Header& header) noexcept;

  Fabric& fabric_;
  const Options& options_;
  Contexts& contexts_;
  Peers& peers_;
  Transfers& transfers_;
  Outbox& outbox_;
  Counts& counts_;
};

}  // namespace tutti::p2p
