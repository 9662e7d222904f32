// A program with dedicated collective processors in virtual time (CDCP-2008): the same requests,
// the same serving tasks and the same algorithms among the DCPs as in reality.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coll/call.hpp"
#include "fabric/sim/network.hpp"
#include "fabric/sim/noise.hpp"

namespace tutti::sim {

/// A machine with `cores` processors on each node, filled node by node. Every so many processors
/// one is a DCP, so that they are spread over the nodes.
struct DedicatedSpec {
  int apps = 1;
  int dcps = 1;
  int cores = 4;
  Network network;
  Noise noise{};
};

/// The microbenchmark of figure 5: start, compute, wait; `repeat` times.
struct DedicatedRun {
  Call call;  // without buffers: they are made here; `bytes` a multiple of 8
  Time compute = 0;
  int repeat = 1;
};

/// Medians over iterations of the mean over the APPs; in picoseconds.
struct DedicatedTimes {
  Time start = 0;     // to hand the collective over
  Time wait = 0;      // for its result, after the computation
  Time whole = 0;     // iteration to iteration
  int most_apps = 0;  // served by one DCP
  std::uint64_t events = 0;
};

/// Makes the machine and runs the program on it; results are checked. Deterministic. On failure
/// `*message` says why.
Status run_dedicated(const DedicatedSpec& spec, const DedicatedRun& run, DedicatedTimes* out,
                     std::string* message);

}  // namespace tutti::sim
