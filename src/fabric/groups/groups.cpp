#include "fabric/groups/groups.hpp"

#include <sodium.h>

#include <cstring>

namespace tutti::groups {

static_assert(crypto_shorthash_BYTES == kSealBytes);
static_assert(crypto_shorthash_KEYBYTES == sizeof GroupName::key);

GroupName name_group(const Secret& secret, const std::uint64_t id[2]) noexcept {
  constexpr std::uint32_t kScope = 0xefc00000, kHosts = 0x3ffff;  // 239.192.0.0/14
  constexpr std::uint32_t kFirstPort = 20000, kPorts = 12000;     // below the ephemeral ones
  struct {
    std::uint32_t address, port, queue_key, unused;
    std::uint8_t key[16];
    std::uint8_t gid[16];
  } drawn;
  crypto_generichash(reinterpret_cast<std::uint8_t*>(&drawn), sizeof drawn,
                     reinterpret_cast<const std::uint8_t*>(id), 2 * sizeof *id, secret.bytes,
                     sizeof secret.bytes);
  GroupName name;
  name.address = kScope | (drawn.address & kHosts);
  name.port = static_cast<std::uint16_t>(kFirstPort + drawn.port % kPorts);
  name.queue_key = drawn.queue_key & 0x7fff'ffff;
  std::memcpy(name.gid, drawn.gid, sizeof name.gid);
  std::memcpy(name.key, drawn.key, sizeof name.key);
  return name;
}

void seal(const GroupName& group, std::byte* data, std::size_t bytes) noexcept {
  crypto_shorthash(reinterpret_cast<std::uint8_t*>(data + bytes),
                   reinterpret_cast<const std::uint8_t*>(data), bytes, group.key);
}

bool is_sealed(const GroupName& group, const std::byte* data, std::size_t bytes) noexcept {
  if (bytes < kSealBytes) return false;
  std::uint8_t expected[kSealBytes];
  crypto_shorthash(expected, reinterpret_cast<const std::uint8_t*>(data), bytes - kSealBytes,
                   group.key);
  return sodium_memcmp(expected, data + bytes - kSealBytes, kSealBytes) == 0;
}

void write_trailer(const GroupName& group, const Origin& origin, std::byte* data,
                   std::size_t bytes) noexcept {
  std::memcpy(data + bytes, &origin, sizeof origin);
  seal(group, data, bytes + sizeof origin);
}

bool read_origin(const std::byte* data, std::size_t bytes, Origin* out) noexcept {
  if (bytes < kTrailerBytes) return false;
  std::memcpy(out, data + bytes - kTrailerBytes, sizeof *out);
  return true;
}

}  // namespace tutti::groups
