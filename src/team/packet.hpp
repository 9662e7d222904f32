// The packet of a broadcast by multicast (MCAST-2007, "Packet Format"): a fragment, its number, the
// broadcast it belongs to, and a CRC-32 over all of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

struct MulticastPacket {
  std::uint64_t broadcast = 0;  // BID: the epoch of the collective in its team
  std::uint32_t sequence = 0;   // number of the fragment
  std::uint32_t sender = 0;     // member of the team
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Bytes that a packet has besides its data.
inline constexpr std::size_t kPacketOverhead = 24;

/// Writes the packet to `out` (packet.bytes + kPacketOverhead bytes); returns its size. `elided`:
/// the data is neither read nor written, nor is it part of the CRC.
std::size_t write_packet(const MulticastPacket& packet, bool elided, std::byte* out) noexcept;

/// Reads a packet; `out->data` points into `in`. False, with `*out` untouched, for whatever is not
/// one: too short, or with a wrong CRC.
bool read_packet(const std::byte* in, std::size_t bytes, bool elided,
                 MulticastPacket* out) noexcept;

}  // namespace tutti
