#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings_sim.hpp"
#include "sim/program.hpp"

namespace nb = nanobind;

namespace {

/// (kind, peer, tag, request or requests, bytes or microseconds) of an action.
using ActionTuple = std::tuple<std::string, int, int, std::uint32_t, double>;

tutti::sim::Action action_of(const ActionTuple& tuple) {
  using Kind = tutti::sim::Action::Kind;
  const auto& [kind, peer, tag, request, amount] = tuple;
  tutti::sim::Action action;
  action.peer = peer;
  action.tag = tag;
  if (kind == "compute") {
    action.duration = picoseconds(amount, "computation");
  } else if (kind == "send" || kind == "receive") {
    if (!(amount >= 0 && amount <= 1e12))
      throw std::invalid_argument("a message has from 0 to 1e12 bytes");
    action.kind = kind == "send" ? Kind::send : Kind::receive;
    action.request = static_cast<std::int32_t>(request);
    action.bytes = static_cast<std::size_t>(amount);
  } else if (kind == "wait" || kind == "block") {
    action.kind = kind == "wait" ? Kind::wait : Kind::block;
    action.requests = request;
  } else if (kind == "mark") {
    action.kind = Kind::mark;
  } else {
    throw std::invalid_argument("actions are compute, send, receive, wait, block and mark, not '" +
                                kind + "'");
  }
  return action;
}

std::vector<double> microseconds(const std::vector<tutti::sim::Time>& times) {
  std::vector<double> all;
  for (const tutti::sim::Time time : times)
    all.push_back(static_cast<double>(time) / tutti::sim::kMicrosecond);
  return all;
}

/// A program of point-to-point messages: a list of actions a rank. A dict: by rank waited_us,
/// blocked_us, marked_us and finished_us; interrupts, rendezvous (messages) and events.
nb::dict run_program(const std::string& protocol, const std::string& profile, int nodes,
                     int ranks_per_node, const std::vector<std::vector<ActionTuple>>& actions,
                     std::size_t eager) {
  std::vector<std::vector<tutti::sim::Action>> programs;
  for (const auto& list : actions) {
    programs.emplace_back();
    std::transform(list.begin(), list.end(), std::back_inserter(programs.back()), action_of);
  }
  const tutti::sim::ProgramSpec spec{load_profile(profile), nodes, ranks_per_node,
                                     protocol_of(parse_protocol(protocol)), eager};
  tutti::sim::ProgramTimes times;
  std::string message;
  {
    nb::gil_scoped_release unlocked;
    require(run_program(spec, programs, &times, &message), message);
  }
  nb::dict result;
  result["waited_us"] = microseconds(times.waited);
  result["blocked_us"] = microseconds(times.blocked);
  result["marked_us"] = microseconds(times.marked);
  result["finished_us"] = microseconds(times.finished);
  result["interrupts"] = times.interrupts;
  result["rendezvous"] = times.rendezvous;
  result["events"] = times.events;
  return result;
}

}  // namespace

void bind_programs(nb::module_& module) {
  using namespace nb::literals;
  module.def("run_program", &run_program, "protocol"_a, "profile"_a, "nodes"_a, "ranks_per_node"_a,
             "actions"_a, "eager"_a = 8192);
}
