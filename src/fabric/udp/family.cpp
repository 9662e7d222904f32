#include "fabric/udp/family.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>

namespace tutti::udp {
namespace {

constexpr int kHops = 8;  // the administrative scope is the limit, not this

template <class Value>
bool set(int socket, int level, int option, const Value& value) noexcept {
  return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

sockaddr_in group4(const groups::GroupName& name) noexcept {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(name.port);
  address.sin_addr.s_addr = htonl(name.address);
  return address;
}

/// RFC 4291, section 2.7: a group that nobody has assigned, of the scope of 239.192.0.0/14.
sockaddr_in6 group6(const groups::GroupName& name) noexcept {
  constexpr std::uint8_t kTransient = 0x1, kOrganization = 0x8;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(name.port);
  address.sin6_addr.s6_addr[0] = 0xff;
  address.sin6_addr.s6_addr[1] = kTransient << 4 | kOrganization;
  static_assert(2 + sizeof name.gid == sizeof address.sin6_addr);
  std::memcpy(address.sin6_addr.s6_addr + 2, name.gid, sizeof name.gid);
  return address;
}

template <class Address>
GroupAddress general(const Address& address) noexcept {
  GroupAddress out;
  out.bytes = sizeof address;
  std::memcpy(&out.storage, &address, sizeof address);
  return out;
}

}  // namespace

const char* name_of(Family family) noexcept { return family == Family::ip6 ? "IPv6" : "IPv4"; }
int domain_of(Family family) noexcept { return family == Family::ip6 ? AF_INET6 : AF_INET; }
std::size_t header_bytes(Family family) noexcept { return family == Family::ip6 ? 48 : 28; }
std::size_t least_mtu(Family family) noexcept { return family == Family::ip6 ? 1280 : 576; }

GroupAddress address_of(Family family, const groups::GroupName& name) noexcept {
  return family == Family::ip6 ? general(group6(name)) : general(group4(name));
}

bool send_through(Family family, int socket, unsigned interface) noexcept {
  const int on = 1, index = static_cast<int>(interface);
  if (family == Family::ip6) {
    return set(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, index) &&
           set(socket, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on) &&
           set(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kHops);
  }
  ip_mreqn through{};
  through.imr_ifindex = index;
  return set(socket, IPPROTO_IP, IP_MULTICAST_IF, through) &&
         set(socket, IPPROTO_IP, IP_MULTICAST_LOOP, on) &&
         set(socket, IPPROTO_IP, IP_MULTICAST_TTL, kHops);
}

bool enter(Family family, int socket, const groups::GroupName& name, unsigned interface) noexcept {
  const int on = 1, off = 0;
  const GroupAddress address = address_of(family, name);
  if (!set(socket, SOL_SOCKET, SO_REUSEADDR, on)) return false;
  if (family == Family::ip6) {
    const auto& group = reinterpret_cast<const sockaddr_in6&>(address.storage);
    const ipv6_mreq membership{group.sin6_addr, interface};
    return set(socket, IPPROTO_IPV6, IPV6_V6ONLY, on) &&
           set(socket, IPPROTO_IPV6, IPV6_MULTICAST_ALL, off) &&
           bind(socket, address.get(), address.bytes) == 0 &&
           set(socket, IPPROTO_IPV6, IPV6_JOIN_GROUP, membership);
  }
  ip_mreqn membership{};
  membership.imr_multiaddr.s_addr = htonl(name.address);
  membership.imr_ifindex = static_cast<int>(interface);
  return set(socket, IPPROTO_IP, IP_MULTICAST_ALL, off) &&
         bind(socket, address.get(), address.bytes) == 0 &&
         set(socket, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership);
}

bool can_send(Family family, unsigned interface) noexcept {
  const int asks = socket(domain_of(family), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (asks < 0) return false;
  groups::GroupName any;
  any.address = 0xefc00001;  // 239.192.0.1
  any.port = 9;
  const GroupAddress address = address_of(family, any);
  const bool can =
      send_through(family, asks, interface) && connect(asks, address.get(), address.bytes) == 0;
  close(asks);
  return can;
}

}  // namespace tutti::udp
