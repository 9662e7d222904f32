// Models of RNDV-2006: how long a message by rendezvous takes, and how much of it is hidden behind
// computation at one end. Pure functions; times in microseconds.
#pragma once

#include <cstddef>

#include "fabric/sim/network.hpp"

namespace tutti::model {

enum class Rendezvous { write, read, read_interrupt };

/// Packets as they cross the network: header and data, without the counter.
struct ControlBytes {
  std::size_t request = 72;       // RNDZ_START with the key of the sender's memory
  std::size_t bare_request = 40;  // without (RDMA Write)
  std::size_t reply = 88;         // RNDZ_REPLY with the key of the receiver's memory
  std::size_t finish = 40;
};

/// When each side's wait is over, counted from the common start of both. The receive is posted.
struct RendezvousTimes {
  double sender = 0;
  double receiver = 0;
};

/// `m` bytes; each side computes so long between its start and its wait. The processor does nothing
/// for the message while it computes, except that with read_interrupt a request to send interrupts
/// the receiver (Ti).
RendezvousTimes rendezvous(const sim::Network& n, Rendezvous protocol, std::size_t m,
                           double sender_computes, double receiver_computes);

/// The share of the shorter of communication and computation that is hidden, from 0 to 1:
/// (alone + computation - together) / min(alone, computation).
double overlap(double alone, double computation, double together);

}  // namespace tutti::model
