// What arrives: takes packets out of the rings and gives each to the part that it is for.
#pragma once

#include "engine/engine.hpp"
#include "p2p/contexts.hpp"
#include "p2p/eager.hpp"
#include "p2p/options.hpp"
#include "p2p/peers.hpp"
#include "p2p/rendezvous.hpp"
#include "p2p/transfers.hpp"
#include "p2p/unexpected.hpp"

namespace tutti::p2p {

class Delivery {
 public:
  Delivery(Engine& engine, Contexts& contexts, Peers& peers, Transfers& transfers,
           Unexpected& unexpected, Eager& eager, Rendezvous& rendezvous, Counts& counts) noexcept
      : engine_(engine),
        fabric_(engine.fabric()),
        contexts_(contexts),
        peers_(peers),
        transfers_(transfers),
        unexpected_(unexpected),
        eager_(eager),
        rendezvous_(rendezvous),
        counts_(counts) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  /// Takes what the peer has sent: all of it while something is expected from it, else one packet.
  /// True when there was something. What cannot be a packet stays where it is, and nothing behind
  /// it can be found.
  bool drain(Peer& peer) noexcept;
  /// Takes what has arrived, from one peer or (nullptr) from any. True when there was something.
  bool poll(Peer* peer) noexcept {
    if (peer == nullptr) return poll_all();
    return peer->accepted() && peer->arrived() && drain(*peer);
  }
  /// Waits until `done()`: looks at the flags itself for a while, then leaves it to the engine.
  /// `peer`: whom it depends on; nullptr: more than one.
  template <class Done>
  void wait_until(Done done, Peer* peer, Engine::Guard& guard) noexcept {
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
  void wait_for(const Transfer& transfer, Engine::Guard& guard) noexcept {
    if (transfer.active())
      wait_until([&transfer] { return !transfer.active(); }, transfer.peer, guard);
  }

 private:
  bool poll_all() noexcept;
  void handle(Peer& peer, const Packet& packet) noexcept;
  void handle_envelope(Peer& peer, const Packet& packet) noexcept;
  void handle_answer(Transfer& transfer, Peer& peer, const Packet& packet) noexcept;

  Engine& engine_;
  Fabric& fabric_;
  Contexts& contexts_;
  Peers& peers_;
  Transfers& transfers_;
  Unexpected& unexpected_;
  Eager& eager_;
  Rendezvous& rendezvous_;
  Counts& counts_;
};

}  // namespace tutti::p2p
