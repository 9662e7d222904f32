// The commands of the control connection, and their answers.
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <sstream>

#include "lab/message.hpp"
#include "lab/switch.hpp"

namespace tutti::lab {

namespace {

constexpr std::size_t kMostCommandBytes = 4096;
constexpr std::size_t kMostPieceBytes = 32768;

std::string refusal(const std::string& why) { return "!" + why; }

}  // namespace

bool Switch::obey() {
  std::string command;
  std::vector<int> descriptors;
  if (!receive_with(control_, kMostCommandBytes, &command, &descriptors)) return false;
  const std::string answer = answer_to(command, descriptors);
  for (int descriptor : descriptors) close(descriptor);
  return say(answer);
}

/// In packets, of which all but the last begin with an end of line: the counters of many nodes are
/// more than a socket takes at once.
bool Switch::say(const std::string& answer) const {
  std::size_t said = 0;
  for (; answer.size() - said > kMostPieceBytes; said += kMostPieceBytes) {
    if (!send_with(control_, "\n" + answer.substr(said, kMostPieceBytes), {})) return false;
  }
  return send_with(control_, answer.substr(said), {});
}

std::string Switch::answer_to(const std::string& command, const std::vector<int>& descriptors) {
  std::istringstream words(command);
  std::string what, first, second;
  words >> what >> first >> second;
  if (what == "counters") return counters();
  if (what == "reset") {
    network_.reset_counters();
    lateness_ = {};
    unknown_ = refused_ = 0;
    return "ok";
  }
  if (what == "set") return set(first, std::strtod(second.c_str(), nullptr));
  const int port = port_of(first);
  if (port < 0) return refusal("no node '" + first + "'");
  if (what == "cut" || what == "heal") {
    network_.cut(port, what == "cut" || nodes_[static_cast<std::size_t>(port)].pid < 0);
    return "ok";
  }
  if (what == "cut-link" || what == "heal-link") {
    const int other = port_of(second);
    if (other < 0) return refusal("no node '" + second + "'");
    network_.cut_link(port, other, what == "cut-link");
    return "ok";
  }
  if (what == "kill") {
    bury(port);
    return "ok";
  }
  if (what == "clear") {
    const int node = nodes_[static_cast<std::size_t>(port)].socket;
    return node < 0 || send_with(node, "clear", {}) ? "ok" : refusal("node " + first + " is down");
  }
  if (what == "connect") {
    if (descriptors.size() != 1 || !pass_on(port, descriptors[0]))
      return refusal("node " + first + " is down");
    return "ok";
  }
  return refusal("unknown command '" + command + "'");
}

std::string Switch::set(const std::string& name, double value) {
  if (name == "groups") {
    carries_groups_ = value != 0;
    return "ok";
  }
  Conditions conditions = network_.conditions();
  if (name == "latency_ns")
    conditions.latency = static_cast<Nanoseconds>(value);
  else if (name == "bits_per_second")
    conditions.bits_per_second = value;
  else if (name == "loss")
    conditions.loss = value;
  else if (name == "duplicate")
    conditions.duplicate = value;
  else if (name == "reorder")
    conditions.reorder = value;
  else
    return refusal("unknown condition '" + name + "'");
  network_.set_conditions(conditions);
  return "ok";
}

/// One JSON object. Links that carried nothing are left out.
std::string Switch::counters() const {
  std::ostringstream out;
  out << "{\"links\": [";
  const char* separator = "";
  for (int from = 0; from < network_.ports(); ++from) {
    for (int to = 0; to < network_.ports(); ++to) {
      const LinkCounters& link = network_.counters(from, to);
      if (link.frames + link.lost + link.cut + link.overflowed == 0) continue;
      out << separator << "{\"from\": \"" << Addresses::name(from) << "\", \"to\": \""
          << Addresses::name(to) << "\", \"frames\": " << link.frames
          << ", \"bytes\": " << link.bytes << ", \"lost\": " << link.lost
          << ", \"duplicated\": " << link.duplicated << ", \"reordered\": " << link.reordered
          << ", \"cut\": " << link.cut << ", \"overflowed\": " << link.overflowed << "}";
      separator = ", ";
    }
  }
  out << "], \"ports\": [";
  separator = "";
  for (int port = 0; port < network_.ports(); ++port) {
    const PortCounters& its = network_.counters(port);
    if (its.sent + its.received == 0) continue;
    out << separator << "{\"node\": \"" << Addresses::name(port) << "\", \"sent\": " << its.sent
        << ", \"received\": " << its.received << "}";
    separator = ", ";
  }
  const double mean =
      lateness_.frames ? static_cast<double>(lateness_.sum) / static_cast<double>(lateness_.frames)
                       : 0;
  out << "], \"late\": {\"frames\": " << lateness_.frames
      << ", \"over_100us\": " << lateness_.frames_late << ", \"mean_us\": " << mean * 1e-3
      << ", \"max_us\": " << static_cast<double>(lateness_.most) * 1e-3
      << "}, \"unknown\": " << unknown_ << ", \"refused\": " << refused_ << "}";
  return out.str();
}

}  // namespace tutti::lab
