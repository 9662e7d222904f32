// What makes datagrams of a job its own: names that nobody can guess, and a keyed checksum.
//
// IP multicast is open to everybody on the network, so each datagram ends with a SipHash-2-4 of its
// bytes under a key of its group; what has none is somebody else's, or forged. Key, address and
// port of a group follow from the job's secret and the group's id by keyed BLAKE2b, so that ranks
// need not exchange them. The secret is drawn by the kernel and travels by the job's bootstrap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

namespace tutti::udp {

struct Secret {
  std::uint8_t bytes[32] = {};
};

/// From the kernel's generator. Fails where the system has none.
Status draw_secret(Secret* out) noexcept;

/// Where a group of the job is: an administratively scoped IPv4 address (239.192.0.0/14, RFC 2365)
/// and a port, both in host order, and the key of its checksums.
struct GroupName {
  std::uint32_t address = 0;
  std::uint16_t port = 0;
  std::uint8_t key[16] = {};
};
GroupName name_group(const Secret& secret, const std::uint64_t id[2]) noexcept;

inline constexpr std::size_t kSealBytes = 8;

/// Writes the checksum of `bytes` at `data` behind them.
void seal(const GroupName& group, std::byte* data, std::size_t bytes) noexcept;
/// True when the last kSealBytes of `bytes` are the checksum of what is before them.
bool is_sealed(const GroupName& group, const std::byte* data, std::size_t bytes) noexcept;

}  // namespace tutti::udp
