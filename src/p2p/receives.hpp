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
  Receives(Fabric& fabric, Contexts& contexts, Peers& peers, Transfers& transfers, Eager& eager,
           Rendezvous& rendezvous) noexcept
      : fabric_(fabric),
        contexts_(contexts),
        peers_(peers),
        transfers_(transfers),
        eager_(eager),
        rendezvous_(rendezvous) {}
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// Receives a message that has come already and is out of the ordinary in no way: kept here, or
  /// at the front of its sender's ring. False: nothing was done. Otherwise `*out`, which must be
  /// new, says what has come.
  bool receive_now(Group& group, void* buffer, std::size_t room, int source, int tag,
                   Receipt* out) noexcept;
  /// The same, or begins the receive, where its source and all else is usual too: `*posted` is set
  /// then. False: nothing was done.
  bool receive_or_post(Group& group, void* buffer, std::size_t room, int source, int tag,
                       Receipt* out, Transfer** posted) noexcept;
  /// The peer whose next packet would be given to such a receive if it fits; nullptr: none.
  Peer* next_from(const Group& group, int source, int tag) const noexcept;

  /// Begins a receive or a probe. `watched`: nobody waits in here for it, so that the progress
  /// thread may have to.
  void begin(Transfer& receive, bool watched) noexcept;
  /// The same of a receive for which a message has been taken out of the matching. Gives that up.
  void begin_with(Arrival* arrival, Transfer& receive) noexcept;
  /// Possible until it is matched.
  void cancel(Transfer& receive) noexcept;

 private:
  bool receive_kept(Arrival& arrival, void* buffer, std::size_t room, Receipt* out) noexcept;
  bool receive_front(Peer& peer, const Context& context, void* buffer, std::size_t room, int source,
                     int tag, Receipt* out) noexcept;
  void consume(Arrival* arrival, Transfer& receive) noexcept;
  void consume_local(Arrival* arrival, Transfer& send, Transfer& receive) noexcept;

  Fabric& fabric_;
  Contexts& contexts_;
  Peers& peers_;
  Transfers& transfers_;
  Eager& eager_;
  Rendezvous& rendezvous_;
};

}  // namespace tutti::p2p
