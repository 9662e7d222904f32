#include "lab/node_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "lab/message.hpp"

namespace tutti::lab {

namespace {

constexpr int kQueueFrames = 8192;  // that wait for the switch; more are dropped by the kernel

sockaddr ip(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  sockaddr out;
  std::memcpy(&out, &address, sizeof out);
  return out;
}

void write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // a kernel without IPv6
  [[maybe_unused]] const ssize_t count = write(file, text, std::strlen(text));
  close(file);
}

/// A socket to make requests about network devices with.
class Requests {
 public:
  Requests() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (socket_ < 0) throw system_problem("cannot make a socket in a node");
  }
  ~Requests() { close(socket_); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  void make(unsigned long request, void* argument, const char* what) {
    if (ioctl(socket_, request, argument) != 0)
      throw system_problem(std::string("cannot set a node's ") + what);
  }

 private:
  int socket_;
};

ifreq named(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

void bring_up(Requests& requests, const char* device) {
  ifreq request = named(device);
  requests.make(SIOCGIFFLAGS, &request, "device");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  requests.make(SIOCSIFFLAGS, &request, "device up");
}

int open_tap() {
  const int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (tap < 0) throw system_problem("cannot open /dev/net/tun (the kernel's TUN/TAP driver)");
  ifreq request = named(kDevice);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tap, TUNSETIFF, &request) != 0) throw system_problem("cannot make a TAP device");
  // Checksums need not be reckoned: frames never leave this machine's memory.
  if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM) != 0)
    throw system_problem("cannot set the TAP device's features");
  return tap;
}

void set_addresses(Requests& requests, const Addresses& addresses, int port) {
  ifreq request = named(kDevice);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  Addresses::hardware(port, reinterpret_cast<unsigned char*>(request.ifr_hwaddr.sa_data));
  requests.make(SIOCSIFHWADDR, &request, "hardware address");
  request = named(kDevice);
  request.ifr_mtu = addresses.mtu;
  requests.make(SIOCSIFMTU, &request, "MTU");
  request = named(kDevice);
  request.ifr_qlen = kQueueFrames;
  requests.make(SIOCSIFTXQLEN, &request, "queue length");
  request = named(kDevice);
  request.ifr_addr = ip(Addresses::address(port));
  requests.make(SIOCSIFADDR, &request, "address");
  request = named(kDevice);
  request.ifr_netmask = ip("255.255.0.0");
  requests.make(SIOCSIFNETMASK, &request, "netmask");
}

/// Neighbours never have to be asked for: a lost ARP request would cost a second.
void set_neighbours(Requests& requests, const Addresses& addresses, int port) {
  for (int other = 0; other < addresses.ports; ++other) {
    if (other == port) continue;
    arpreq entry{};
    entry.arp_pa = ip(Addresses::address(other));
    entry.arp_ha.sa_family = ARPHRD_ETHER;
    Addresses::hardware(other, reinterpret_cast<unsigned char*>(entry.arp_ha.sa_data));
    entry.arp_flags = ATF_PERM | ATF_COM;
    std::strncpy(entry.arp_dev, kDevice, sizeof entry.arp_dev - 1);
    requests.make(SIOCSARP, &entry, "neighbours");
  }
}

void route_multicast(Requests& requests) {
  char device[] = "eth0";
  rtentry route{};
  route.rt_dst = ip("224.0.0.0");
  route.rt_genmask = ip("240.0.0.0");
  route.rt_flags = RTF_UP;
  route.rt_dev = device;
  requests.make(SIOCADDRT, &route, "multicast route");
}

}  // namespace

std::string Addresses::name(int port) {
  return port == 0 ? std::string("head") : std::string("n").append(std::to_string(port - 1));
}

std::string Addresses::address(int port) {
  return std::string("10.71.")
      .append(std::to_string((port + 1) / 250))
      .append(".")
      .append(std::to_string((port + 1) % 250 + 1));
}

void Addresses::hardware(int port, unsigned char out[6]) {
  const unsigned char bytes[6] = {
      0x02, 't', 'u', 't', static_cast<unsigned char>(port >> 8), static_cast<unsigned char>(port)};
  std::memcpy(out, bytes, sizeof bytes);
}

int make_network(const Addresses& addresses, int port) {
  // IPv6 sends frames of its own accord, which would shift what the seed decides about the
  // program's.
  write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  Requests requests;
  bring_up(requests, "lo");
  const int tap = open_tap();
  set_addresses(requests, addresses, port);
  bring_up(requests, kDevice);
  set_neighbours(requests, addresses, port);
  route_multicast(requests);
  return tap;
}

}  // namespace tutti::lab
