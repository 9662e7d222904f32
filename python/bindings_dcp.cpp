// Dedicated processors in simulation, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings_sim.hpp"
#include "sim/dedicated.hpp"

namespace nb = nanobind;

namespace {

using tutti::sim::kMicrosecond;

/// A dict: start_us, wait_us (of the microbenchmark of CDCP-2008, with `compute` in between), us
/// (their sum: the latency without computation, with enough of it the overhead), iteration_us,
/// most_apps (served by one DCP), events.
nb::dict simulate_dedicated(const std::string& op, const std::string& profile, int apps, int dcps,
                            int cores, std::size_t bytes, double compute, int repeat,
                            double noise_period, double noise, double skew, std::uint64_t seed) {
  tutti::sim::DedicatedSpec spec;
  spec.network = load_profile(profile);
  spec.apps = apps;
  spec.dcps = dcps;
  spec.cores = cores;
  spec.noise = {picoseconds(noise_period, "noise_period"), picoseconds(noise, "noise"),
                picoseconds(skew, "skew"), seed};
  tutti::sim::DedicatedRun run;
  run.call.coll = parse_collective(op);
  run.call.bytes = run.call.coll == tutti::Coll::barrier ? 0 : bytes;
  run.compute = picoseconds(compute, "compute");
  run.repeat = repeat;
  tutti::sim::DedicatedTimes times;
  std::string message;
  tutti::Status status;
  {
    nb::gil_scoped_release unlocked;
    status = run_dedicated(spec, run, &times, &message);
  }
  require(status, message);
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
