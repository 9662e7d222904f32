// The network device of a node, set up with system calls alone (no iproute2 needed). To be called
// inside the node's network namespace.
#pragma once

#include "lab/node.hpp"

namespace tutti::lab {

/// Bytes that a TAP device puts in front of every frame (struct virtio_net_hdr).
inline constexpr std::size_t kTapHeaderBytes = 10;
inline constexpr const char* kDevice = "eth0";

/// Brings up the loopback and eth0, a TAP device with the node's address, all neighbours known and
/// multicast routed to it. Returns the TAP's descriptor. Throws Problem.
int make_network(const Addresses& addresses, int port);

}  // namespace tutti::lab
