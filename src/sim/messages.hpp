// Two processes on two simulated nodes that exchange one message: the overlap tests of RNDV-2006,
// over the protocols of src/p2p, unchanged, in virtual time.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/sim/network.hpp"
#include "p2p/messages.hpp"

namespace tutti::sim {

struct Exchange {
  std::size_t bytes = 0;
  p2p::Protocol protocol = p2p::Protocol::read;
  /// How long either side computes between starting its operation and waiting for it. 0: it waits
  /// at once.
  Time sender_computes = 0;
  Time receiver_computes = 0;
};

struct ExchangeTimes {
  Time sender = 0;    // from the start until its wait is over, computation included
  Time receiver = 0;  // likewise
  Time arrived = 0;   // from the start until the receiver has the data and knows it
  std::uint64_t sender_interrupts = 0, receiver_interrupts = 0;
};

/// The receive is posted and the send started at the same time, on connected ranks. Every message
/// goes by rendezvous. With read_interrupt a request to send interrupts the receiver while it
/// computes (Network::Ti), and nothing else does: selective interrupts. `*message` says in one line
/// why it could not be run.
Status run_exchange(const Network& network, const Exchange& exchange, ExchangeTimes* out,
                    std::string* message);

}  // namespace tutti::sim
