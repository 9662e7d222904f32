// Analytical models of CDCP-2008: the steps of section IV-A, and what they take. Pure functions;
// times in microseconds.
#pragma once

#include <cstddef>

#include "fabric/sim/network.hpp"

namespace tutti::model {

/// Steps of the conventional allreduce on N processors: 2 log2 N of communication and log2 N of
/// computation.
double conventional_steps(int processors);

/// Steps with D dedicated processors as printed: 2 log2 D + log2 D + 2. For the paper's own figure
/// 3 (one DCP) that is 2, where the figure shows 3.
double published_steps(int dcps);

/// 3 log2 D + 3: the send, the DCP's own reduction, and the distribution are steps too. Agrees with
/// figure 3, and with the text's "from 1:2 on".
double corrected_steps(int dcps);

/// An allreduce of `bytes` by D dedicated processors that serve `apps` each: the put of an APP, the
/// requests one after the other at the DCP, log2 D exchanges of the DCPs, and the answers one after
/// the other: the mean of the APPs, which start together. Uncontended network; the linear term in
/// `apps` is the contention at a DCP.
double dedicated_allreduce(const sim::Network& n, int dcps, int apps, std::size_t bytes);

/// What an APP spends on a collective of `bytes` that is hidden: putting the request to a DCP on
/// another node, and copying out the answer. Whatever the number of processes.
double dedicated_overhead(const sim::Network& n, std::size_t bytes);

/// The break-even of section V-E: an application's parts, in any unit of time.
struct Application {
  double computation = 0;
  double collectives = 0;  // blocking, with all processors as APPs
  double point_to_point = 0;
  double overlap = 0;  // computation and communication that collectives can hide behind
};

/// (1 + r) T_comp + max(overhead, c T_coll - T_overlap) + T_point, when a share of r processors is
/// taken from the application; c: latency of the dedicated collective to the blocking one, measured
/// or simulated; `overhead`: of all its collectives.
double with_dedicated(const Application& app, double r, double c, double overhead);

/// The rule as printed, whose gain of 0.3 was measured with extra processors: T_coll > r / 0.3
/// T_comp without overlap, T_coll > r T_comp with it.
bool published_rule_gains(const Application& app, double r);

}  // namespace tutti::model
