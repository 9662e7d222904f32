// What differs between the two versions of IP: addresses of groups, and how a socket is in one.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

#include "fabric/groups/groups.hpp"

namespace tutti::udp {

enum class Family : std::uint8_t { ip6, ip4 };

/// "IPv6", "IPv4".
const char* name_of(Family family) noexcept;
/// AF_INET6, AF_INET.
int domain_of(Family family) noexcept;
/// Of a datagram, IP's and UDP's together.
std::size_t header_bytes(Family family) noexcept;
/// What every network of this family takes in one packet.
std::size_t least_mtu(Family family) noexcept;

struct GroupAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};
GroupAddress address_of(Family family, const groups::GroupName& name) noexcept;

/// Makes a new socket send to this interface, and to the processes of this machine too.
bool send_through(Family family, int socket, unsigned interface) noexcept;
/// Binds it to the group's address, so that datagrams to others that use the port do not come, and
/// makes the interface a member.
bool enter(Family family, int socket, const groups::GroupName& name, unsigned interface) noexcept;
/// Whether the system would send to a group from this interface: IPv6 does not before an address
/// is known to be nobody else's, and needs a route.
bool can_send(Family family, unsigned interface) noexcept;

}  // namespace tutti::udp
