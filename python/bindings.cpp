// The extension module tutti._core: what the command line needs to know from the C++ side.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/settings.hpp"
#include "base/settings_audience.hpp"
#include "base/status.hpp"
#include "bindings_sim.hpp"
#include "core/core.hpp"
#include "core/network.hpp"
#include "fabric/nodes/nodes.hpp"
#include "fabric/shm/segment.hpp"
#include "select/select.hpp"
#include "team/inbox.hpp"
#include "topo/topo.hpp"

namespace {

using SettingTuple = std::tuple<std::string, std::string, std::string, std::string, std::string,
                                std::string, std::string, bool>;

const char* scope_text(tutti::Scope scope) {
  return scope == tutti::Scope::any     ? "any"
         : scope == tutti::Scope::equal ? "equal"
                                        : "all or none";
}

/// The settings in force: (name, type, default, value, source, help, ranks, for tests only) each.
std::vector<SettingTuple> describe() {
  std::vector<SettingTuple> lines;
  for (const tutti::SettingLine& line : tutti::describe_settings()) {
    lines.emplace_back(line.name, line.type, line.fallback, line.value, line.source, line.help,
                       scope_text(line.scope), tutti::is_for_tests(line.name));
  }
  return lines;
}

/// Empty when environment and file are right, otherwise the one line that says what is not.
std::string check() {
  tutti::Settings settings;
  tutti::Forced forced;
  std::string message;
  const bool right = tutti::load_settings(&settings, &message).ok() &&
                     tutti::Forced::parse(settings.algorithm, &forced, &message).ok();
  return right ? std::string() : message;
}

/// The algorithms of this build: (collective, name) each, in the order of the list.
std::vector<std::tuple<std::string, std::string>> algorithms() {
  std::vector<std::tuple<std::string, std::string>> names;
  for (const tutti::Algorithm* const one : tutti::algorithms()) {
    const tutti::Algorithm& algorithm = *one;
    names.emplace_back(tutti::name(algorithm.coll), algorithm.name);
  }
  return names;
}

/// The bytes that a text such as "64K" stands for, or -1.
long long bytes_of(const std::string& text) {
  std::size_t bytes = 0;
  return tutti::parse_bytes(text, &bytes) ? static_cast<long long>(bytes) : -1;
}

/// A job of one rank has nobody to exchange with.
tutti::Status gather_alone(void* /*self*/, const void* in, void* out, std::size_t bytes) {
  std::memcpy(out, in, bytes);
  return tutti::Status::success();
}

/// Bytes of shared memory of one rank, read off a job made for the purpose.
std::map<std::string, std::size_t> memory() {
  tutti::Host host;
  host.allgather = &gather_alone;
  std::unique_ptr<tutti::Job> job;
  const tutti::Status status = tutti::Job::create(host, false, &job);
  if (!status.ok()) {
    throw std::runtime_error(std::string("no job can be made here: ") + tutti::name(status.code) +
                             (status.detail != nullptr ? std::string(", ") + status.detail : ""));
  }
  const tutti::MemoryUse use = job->memory();
  return {{"per_team", use.per_team},
          {"segment_used", use.segment_used},
          {"record", tutti::shm::kRecordBytes},
          {"segment_reserved", use.segment_reserved}};
}

/// What the rank that leads its node needs for jobs of 2, 4, ... 1024 nodes, in bytes; and with how
/// many others it has connections: where collectives go in steps of doubled distance, and where
/// each sends to each.
std::vector<std::map<std::string, std::size_t>> memory_between_nodes() {
  std::vector<std::map<std::string, std::size_t>> rows;
  std::size_t steps = 1;
  for (int nodes = 2; nodes <= 1024; nodes *= 2, ++steps) {
    const auto others = static_cast<std::size_t>(nodes) - 1;
    rows.push_back({{"nodes", others + 1},
                    {"communicator", tutti::Inbox::bytes(nodes, false, false)},
                    {"communicator_multicast", tutti::Inbox::bytes(nodes, false, true)},
                    {"job", (others + 1) * (tutti::nodes::NodesFabric::bytes_per_rank() +
                                            sizeof(tutti::NetworkAddress))},
                    {"connections_steps", std::min(2 * steps, others)},
                    {"connections_all", others}});
  }
  return rows;
}

/// The fabrics of this build: name, and whom they reach.
std::vector<std::tuple<std::string, std::string>> fabrics() {
  std::vector<std::tuple<std::string, std::string>> rows;
  for (const tutti::FabricDescription& fabric : tutti::describe_fabrics())
    rows.emplace_back(fabric.name, fabric.reach);
  return rows;
}

/// The online CPUs: number, package, core, NUMA domain, last-level cache.
std::vector<std::tuple<int, int, int, int, int>> cpus() {
  std::vector<std::tuple<int, int, int, int, int>> rows;
  for (const tutti::Cpu& cpu : tutti::read_cpus())
    rows.emplace_back(cpu.number, cpu.package, cpu.core, cpu.numa, cpu.cache);
  return rows;
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("version") = TUTTI_VERSION;
  module.def("describe_settings", &describe);
  module.def("check_settings", &check);
  module.def("bytes_of", &bytes_of);
  module.def("memory", &memory);
  module.def("memory_between_nodes", &memory_between_nodes);
  module.def("fabrics", &fabrics);
  module.def("cpus", &cpus);
  module.def("algorithms", &algorithms);
  bind_simulation(module);
  bind_dedicated(module);
  bind_programs(module);
  bind_models(module);
  bind_where(module);
  bind_trace(module);
  bind_report(module);
}
