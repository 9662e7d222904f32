// How receives begin: with a message that has come already, or by waiting for one.
#pragma once

#include "p2p/contexts.hpp"
#include "p2p/eager.hpp"
#include "p2p/peers.hpp"
#include "p2p/rendezvous.hpp"
#include "p2p/transfers.hpp"

namespace tutti::p2p {

class Receives {
 public:
  Receives(Contexts& contexts, Peers& peers, Transfers& transfers, Eager& eager,
           Rendezvous& rendezvous) noexcept
      : contexts_(contexts),
        peers_(peers),
        transfers_(transfers),
        eager_(eager),
        rendezvous_(rendezvous) {}
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// Begins a receive or a probe. `watched`: nobody waits in here for it, so that the progress
  /// thread may have to.
  void begin(Transfer& receive, bool watched) noexcept;
  /// The same of a receive for which a message has been taken out of the matching. Gives that up.
  void begin_with(Arrival* arrival, Transfer& receive) noexcept;
  /// Possible until it is matched.
  void cancel(Transfer& receive) noexcept;

 private:
  void consume(Arrival* arrival, Transfer& receive) noexcept;
  void consume_local(Arrival* arrival, Transfer& send, Transfer& receive) noexcept;

  Contexts& contexts_;
  Peers& peers_;
  Transfers& transfers_;
  Eager& eager_;
  Rendezvous& rendezvous_;
};

}  // namespace tutti::p2p
