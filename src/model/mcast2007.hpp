// Analytical models of MCAST-2007: a broadcast of one datagram by multicast, its repair around the
// ring, and the classical ways to make a multicast reliable. Pure functions; times in microseconds,
// from the root's start, one process on each node, no contention but that which is named.
#pragma once

#include <cstddef>

#include "fabric/sim/network.hpp"

namespace tutti::model {

/// Until a member has a multicast of `bytes` and has copied it out:
/// Tm + Td + 2 (Ts + Tn) + Tl + d Tt + d Tc + Tr + m Tc, where the datagram d is the message m
/// and its header, copied into registered memory; it is copied out of where it has arrived.
double multicast_send(const sim::Network& n, std::size_t bytes);

/// One step of the ring: a put of `bytes`, copied out.
double ring_step(const sim::Network& n, std::size_t bytes);

/// Steps that a member waits for on average when each datagram is lost with probability `loss`: a
/// run of k losses before and at it takes k, so loss / (1 - loss), whatever the number of members.
double expected_steps(double loss);

/// The mean completion of a member: the multicast, the put to the next one that each of them owes,
/// and the expected repair.
double multicast_mean(const sim::Network& n, std::size_t bytes, double loss);

/// The longest run of losses among `members`, expected: log(members (1 - loss)) / log(1 / loss), at
/// least 0. The last member waits for so many steps.
double longest_run(int members, double loss);

/// How often a root that casts again until everybody has it casts, expected:
/// sum over r of 1 - (1 - loss^r)^members.
double expected_casts(int members, double loss);

/// Until the root is through, with acknowledgements and a retransmission timeout. `size`: members,
/// the root included.
double linear_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout);
double tree_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout);
double coroot_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout);

/// The mean completion of a member where those that lack the message after `timeout` ask the root
/// for it: one read that says whether the root has saved it, and one for the message.
double nack_mean(const sim::Network& n, std::size_t bytes, double loss, double timeout);

}  // namespace tutti::model
