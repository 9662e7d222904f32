// Dedicated processors in simulation, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "bindings_sim.hpp"
#include "sim/dedicated.hpp"

namespace nb = nanobind;

namespace {

using tutti::sim::kMicrosecond;

tutti::Coll parse_offloaded(const std::string& op) {
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    if (op == tutti::name(static_cast<tutti::Coll>(coll))) return static_cast<tutti::Coll>(coll);
  }
  throw std::invalid_argument("there is no collective '" + op + "'");
}

/// A dict: start_us, wait_us (of the microbenchmark of CDCP-2008, with `compute` in between), us
/// (their sum: the latency without computation, with enough of it the overhead), iteration_us,
/// most_apps (served by one DCP), events.
nb::dict simulate_dedicated(const std::string& op, const std::string& profile, int apps, int dcps,
                            int cores, std::size_t bytes, double compute, int repeat,
                            double noise_period, double noise, double skew, std::uint64_t seed) {
  tutti::sim::DedicatedSpec spec;
  std::string message;
  if (!tutti::sim::load_network(profile, &spec.network, &message).ok())
    throw std::invalid_argument(message);
  const auto time = [](double us) {
    if (!(us >= 0) || us > 1e9) throw std::invalid_argument("times are 0 to 1e9 microseconds");
    return static_cast<tutti::sim::Time>(us * kMicrosecond + 0.5);
  };
  spec.apps = apps;
  spec.dcps = dcps;
  spec.cores = cores;
  spec.noise = {time(noise_period), time(noise), time(skew), seed};
  tutti::sim::DedicatedRun run;
  run.call.coll = parse_offloaded(op);
  run.call.bytes = run.call.coll == tutti::Coll::barrier ? 0 : bytes;
  run.compute = time(compute);
  run.repeat = repeat;
  tutti::sim::DedicatedTimes times;
  tutti::Status status;
  {
    nb::gil_scoped_release unlocked;
    status = run_dedicated(spec, run, &times, &message);
  }
  if (!status.ok()) throw std::invalid_argument(message);
  const auto us = [](tutti::sim::Time value) { return static_cast<double>(value) / kMicrosecond; };
  nb::dict result;
  result["start_us"] = us(times.start);
  result["wait_us"] = us(times.wait);
  result["us"] = us(times.start + times.wait);
  result["iteration_us"] = us(times.whole);
  result["most_apps"] = times.most_apps;
  result["events"] = times.events;
  return result;
}

}  // namespace

void bind_dedicated(nb::module_& module) {
  using namespace nb::literals;
  module.def("simulate_dedicated", &simulate_dedicated, "op"_a, "profile"_a, "apps"_a, "dcps"_a,
             "cores"_a = 4, "bytes"_a = 8, "compute"_a = 0.0, "repeat"_a = 10,
             "noise_period"_a = 0.0, "noise"_a = 0.0, "skew"_a = 0.0, "seed"_a = 1);
}
