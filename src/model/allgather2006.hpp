// Models of ALLGATHER-2006: the classical allgather over two-sided messages, and the one through a
// buffer that the processes of a node share with its NIC. Pure functions; times in microseconds,
// `m` the bytes of one process.
#pragma once

#include <cstddef>

#include "fabric/sim/network.hpp"

namespace tutti::model {

/// Equation 1 of the paper: ts log2 p + (p - 1) m tw.
double recursive_doubling(double ts, double tw, double m, int p);

/// What equation 1's terms are on a network: a two-sided message of b bytes that is copied in and
/// out takes ts + b tw. Messages above Network::copied_bytes are not copied by the sender, so it
/// holds up to there.
struct StartupAndByte {
  double ts = 0;
  double tw = 0;
};
StartupAndByte two_sided(const sim::Network& n);

/// Recursive doubling over the processes, `ppn` consecutive ones on each of `nodes` nodes (both
/// powers of two), every message in packets of at most `packet` bytes: steps within a node copy
/// twice, steps between nodes share the NIC. The original of the paper.
double allgather_send_receive(const sim::Network& n, int nodes, int ppn, std::size_t m,
                              std::size_t packet);

/// The paper's: everybody copies into the node's buffer, one process exchanges ever larger parts
/// of it with other nodes, and everybody copies out: with `overlap` what has arrived is copied
/// out during the next step, else all of it at the end. `nodes` is a power of two.
double allgather_shared_buffer(const sim::Network& n, int nodes, int ppn, std::size_t m,
                               bool overlap);

}  // namespace tutti::model
