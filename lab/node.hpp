// One node of a lab: a process that is init of its own PID namespace, and owns network, UTS, IPC
// and mount namespaces. Nothing else holds these, so that nothing is left when the process ends,
// however it ends.
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

namespace tutti::lab {

/// The network of a lab: port 0 is the launchers' node "head", port i + 1 is node "n<i>".
struct Addresses {
  int ports = 0;
  int mtu = 0;

  static std::string name(int port);
  static std::string address(int port);
  /// Locally administered; the port is in the last two bytes.
  static void hardware(int port, unsigned char out[6]);
};

/// What the switch holds of a node. Owns its descriptors.
struct NodeHandle {
  pid_t pid = -1;
  int socket =
      -1;  // SOCK_SEQPACKET: passes connections of clients on; "clear" ends all that runs there
  int tap = -1;
  int agents = -1;  // listens for agents inside the node
};

/// Starts a node and waits until it is up. Throws Problem.
NodeHandle start_node(const Addresses& addresses, int port);

}  // namespace tutti::lab
