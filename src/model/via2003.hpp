// Analytical models of VIA-2003, section 5, with the paper's names. Pure functions; times in
// microseconds.
//
// The paper prints its broadcast equation without the number of nodes, and its allreduce equation
// was lost; what stands here is derived from its description of the events, and the tests compare
// it with the simulation.
#pragma once

#include <cstddef>
#include <vector>

#include "fabric/sim/network.hpp"

namespace tutti::model {

/// RDMA binomial broadcast of `bytes` in blocks of `block` to `nodes` nodes:
/// ceil(log2 N) [Tm + Td + 2 (Ts + Tn) + Tl + m Tt + (num - 1) Ta] + Tc (first + last block).
double broadcast(const sim::Network& n, int nodes, std::size_t bytes, std::size_t block);

/// Send/receive broadcast between two nodes in packets, with the copies and the matching: the
/// paper's t1, of which it takes log2 N for larger machines.
double send_receive(const sim::Network& n, std::size_t bytes, std::size_t packet);

enum class Case { best, worst, uncontended };

/// Degree-k RDMA allreduce, a degree-k reduce and a binomial broadcast of the whole vector. Best
/// case: messages come in the order in which they are folded, and NIC processing overlaps DMA
/// start-up. Worst case: the one that is folded first comes last, and they do not overlap.
/// Uncontended: the best case on a network in which messages that are sent together arrive
/// together, the other reading of the paper's "ideal network condition".
double allreduce(const sim::Network& n, int nodes, std::size_t bytes, int degree, Case which);

/// The degree of `degrees` with the least best-case time.
int optimal_degree(const sim::Network& n, int nodes, std::size_t bytes,
                   const std::vector<int>& degrees);
/// The block of `blocks` with the least time.
std::size_t optimal_block(const sim::Network& n, int nodes, std::size_t bytes,
                          const std::vector<std::size_t>& blocks);

}  // namespace tutti::model
