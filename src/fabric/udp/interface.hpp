// The network interface that IP multicast goes through.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"
#include "fabric/udp/family.hpp"

namespace tutti::udp {

struct Interface {
  std::string name;
  unsigned index = 0;
  std::size_t mtu = 0;
};

/// `wanted`: its name, or empty for the first that is up, is not the loopback, and takes multicast;
/// with an address of the family from which groups can be reached. On failure `*message` says in
/// one line what there is not.
Status find_interface(Family family, const std::string& wanted, Interface* out,
                      std::string* message);

}  // namespace tutti::udp
