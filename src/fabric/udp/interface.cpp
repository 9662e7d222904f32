#include "fabric/udp/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace tutti::udp {
namespace {

std::size_t mtu_of(const char* name) noexcept {
  const int query = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (query < 0) return 0;
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  const bool known = ioctl(query, SIOCGIFMTU, &request) == 0;
  close(query);
  return known && request.ifr_mtu > 0 ? static_cast<std::size_t>(request.ifr_mtu) : 0;
}

}  // namespace

Status find_interface(Family family, const std::string& wanted, Interface* out,
                      std::string* message) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    *message = "the network interfaces cannot be listed";
    return Status::error(Code::unsupported, "no list of interfaces");
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != domain_of(family)) continue;
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const bool usual =
        (entry->ifa_flags & IFF_LOOPBACK) == 0 && (entry->ifa_flags & IFF_MULTICAST) != 0;
    if (wanted.empty() ? !usual : wanted != entry->ifa_name) continue;
    Interface found;
    found.name = entry->ifa_name;
    found.index = if_nametoindex(entry->ifa_name);
    found.mtu = mtu_of(entry->ifa_name);
    if (found.index == 0 || found.mtu == 0 || !can_send(family, found.index)) continue;
    *out = found;
    return Status::success();
  }
  const std::string address = std::string("an ") + name_of(family) + " address";
  *message = wanted.empty() ? "no network interface is up that has " + address + " and multicast"
                            : "no network interface " + wanted + " with " + address + " is up";
  return Status::error(Code::unsupported, "no interface for multicast");
}

}  // namespace tutti::udp
