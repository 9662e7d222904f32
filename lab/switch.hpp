// The switch: moves frames between the nodes' TAP devices through a Network, passes clients on to
// nodes, and obeys the control connection.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lab/network.hpp"
#include "lab/node.hpp"

namespace tutti::lab {

/// How late deliveries were, which is what the lab itself adds to the network it plays.
struct Lateness {
  std::uint64_t frames = 0;
  std::uint64_t frames_late = 0;  // by more than kLate
  Nanoseconds sum = 0;
  Nanoseconds most = 0;
  static constexpr Nanoseconds kLate = 100'000;
};

/// Single-threaded. Owns the nodes: they end with it.
class Switch {
 public:
  /// `control`: SOCK_SEQPACKET; each command is one message and gets one answer. Commands:
  /// counters, reset, cut PORT, heal PORT, cut-link A B, heal-link A B, kill PORT, clear PORT, set
  /// NAME VALUE (a condition, or groups: 0 drops IP multicast), connect PORT (with the descriptor
  /// of a client's connection).
  Switch(int control, std::vector<NodeHandle> nodes, const Conditions& conditions);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Serves until the control connection ends.
  void serve();

 private:
  enum class Source : std::uint32_t { control, tap, node, agents, newcomer };

  void watch(int descriptor, Source source, int value);
  void wait_for_events();
  bool handle(Source source, int value);
  void read_frames(int port);
  void forward(int port, std::size_t bytes);
  void deliver_due();
  void accept_agents(int port);
  void introduce(int newcomer);
  void bury(int port);

  bool obey();
  bool say(const std::string& answer) const;
  std::string answer_to(const std::string& command, const std::vector<int>& descriptors);
  std::string counters() const;
  std::string set(const std::string& name, double value);
  int port_of(const std::string& name) const;
  bool pass_on(int port, int connection);

  int control_;
  int epoll_ = -1;
  std::vector<NodeHandle> nodes_;
  Network network_;
  Lateness lateness_;
  std::uint64_t unknown_ = 0;   // frames for nobody
  std::uint64_t refused_ = 0;   // frames that a node's device did not take
  bool carries_groups_ = true;  // IP multicast
  bool over_ = false;
};

}  // namespace tutti::lab
