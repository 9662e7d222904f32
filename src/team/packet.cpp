#include "team/packet.hpp"

#include <zlib.h>

#include <cstring>

namespace tutti {
namespace {

/// Behind the data, as in the paper.
struct Trailer {
  std::uint64_t broadcast;
  std::uint32_t sequence;
  std::uint32_t sender;
  std::uint32_t bytes;
  std::uint32_t crc;  // of everything before it
};
static_assert(sizeof(Trailer) == kPacketOverhead);

std::uint32_t crc_of(const std::byte* data, std::size_t bytes, const Trailer& trailer) noexcept {
  uLong crc = crc32(0, nullptr, 0);
  if (bytes != 0) crc = crc32(crc, reinterpret_cast<const Bytef*>(data), static_cast<uInt>(bytes));
  crc = crc32(crc, reinterpret_cast<const Bytef*>(&trailer), offsetof(Trailer, crc));
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

std::size_t write_packet(const MulticastPacket& packet, bool elided, std::byte* out) noexcept {
  Trailer trailer{packet.broadcast, packet.sequence, packet.sender,
                  static_cast<std::uint32_t>(packet.bytes), 0};
  const std::size_t carried = elided ? 0 : packet.bytes;
  trailer.crc = crc_of(packet.data, carried, trailer);
  if (carried != 0) std::memcpy(out, packet.data, carried);
  std::memcpy(out + packet.bytes, &trailer, sizeof trailer);
  return packet.bytes + sizeof trailer;
}

bool read_packet(const std::byte* in, std::size_t bytes, bool elided,
                 MulticastPacket* out) noexcept {
  Trailer trailer;
  if (bytes < sizeof trailer) return false;
  const std::size_t length = bytes - sizeof trailer;
  std::memcpy(&trailer, in + length, sizeof trailer);
  if (trailer.bytes != length) return false;
  if (trailer.crc != crc_of(in, elided ? 0 : length, trailer)) return false;
  *out = {trailer.broadcast, trailer.sequence, trailer.sender, in, length};
  return true;
}

}  // namespace tutti
