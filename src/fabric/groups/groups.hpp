// What makes datagrams of a job its own: groups whose names nobody can guess, and a keyed checksum.
//
// Multicast is open to everybody on the network, so each datagram ends with a SipHash-2-4 of its
// bytes under a key of its group; what has none is somebody else's, or forged. Key and place of a
// group follow from the job's secret and the group's id by keyed BLAKE2b, so that ranks need not
// exchange them. The secret is drawn by the kernel and travels by the job's bootstrap.
//
// A datagram on the network: the caller's bytes, then who sent it, its number among those that the
// sender has cast to this group, and the checksum of all that. The same over IP and over verbs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "fabric/secret/secret.hpp"

namespace tutti::groups {

using tutti::draw_secret;
using tutti::Secret;

/// Where a group of the job is, and the key of its checksums. IPv4 and RoCE: an administratively
/// scoped address (239.192.0.0/14, RFC 2365), and a port (IP) or a queue key (verbs). IPv6 and
/// InfiniBand: 112 bits of an address (ff18::/16, RFC 4291) or of a multicast GID (MCAST-2007,
/// section 3), and the port or the queue key.
struct GroupName {
  std::uint32_t address = 0;  // in host order, as all here
  std::uint16_t port = 0;
  std::uint32_t queue_key = 0;  // of those that need no privilege: the highest bit is 0
  std::uint8_t gid[14] = {};
  std::uint8_t key[16] = {};
};
GroupName name_group(const Secret& secret, const std::uint64_t id[2]) noexcept;

/// Who sent a datagram, and which of his it is.
struct Origin {
  std::uint32_t sender = 0;  // job rank
  std::uint32_t number = 0;
};

inline constexpr std::size_t kSealBytes = 8;
/// Bytes that a datagram has besides the caller's.
inline constexpr std::size_t kTrailerBytes = sizeof(Origin) + kSealBytes;

/// Writes the checksum of `bytes` at `data` behind them.
void seal(const GroupName& group, std::byte* data, std::size_t bytes) noexcept;
/// True when the last kSealBytes of `bytes` are the checksum of what is before them.
bool is_sealed(const GroupName& group, const std::byte* data, std::size_t bytes) noexcept;

/// Writes kTrailerBytes behind the `bytes` at `data`.
void write_trailer(const GroupName& group, const Origin& origin, std::byte* data,
                   std::size_t bytes) noexcept;
/// Who is said to have sent what came in `bytes`, whether the checksum is right or not. False where
/// it is too short to say.
bool read_origin(const std::byte* data, std::size_t bytes, Origin* out) noexcept;

}  // namespace tutti::groups
