#include "fabric/udp/seal.hpp"

#include <sodium.h>
#include <sys/random.h>

#include <cstring>

namespace tutti::udp {

static_assert(crypto_shorthash_BYTES == kSealBytes);
static_assert(crypto_shorthash_KEYBYTES == sizeof GroupName::key);

Status draw_secret(Secret* out) noexcept {
  Secret secret;
  if (getrandom(secret.bytes, sizeof secret.bytes, 0) != sizeof secret.bytes)
    return Status::error(Code::unsupported, "the kernel gives no random numbers");
  *out = secret;
  return Status::success();
}

GroupName name_group(const Secret& secret, const std::uint64_t id[2]) noexcept {
  constexpr std::uint32_t kScope = 0xefc00000, kHosts = 0x3ffff;  // 239.192.0.0/14
  constexpr std::uint32_t kFirstPort = 20000, kPorts = 12000;     // below the ephemeral ones
  std::uint8_t digest[32];
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const std::uint8_t*>(id),
                     2 * sizeof *id, secret.bytes, sizeof secret.bytes);
  std::uint32_t address = 0, port = 0;
  std::memcpy(&address, digest, sizeof address);
  std::memcpy(&port, digest + 4, sizeof port);
  GroupName name;
  name.address = kScope | (address & kHosts);
  name.port = static_cast<std::uint16_t>(kFirstPort + port % kPorts);
  std::memcpy(name.key, digest + 16, sizeof name.key);
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

}  // namespace tutti::udp
