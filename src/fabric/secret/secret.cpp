#include "fabric/secret/secret.hpp"

#include <sodium.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

static_assert(crypto_shorthash_BYTES == sizeof(std::uint64_t));
static_assert(crypto_shorthash_KEYBYTES == sizeof Proof::bytes);

bool draw(void* out, std::size_t bytes) noexcept {
  ssize_t drawn;
  do {
    drawn = getrandom(out, bytes, 0);  // whole up to 256 bytes
  } while (drawn < 0 && errno == EINTR);
  return drawn == static_cast<ssize_t>(bytes);
}

std::uint64_t short_hash(const std::uint8_t* key, const void* data, std::size_t bytes) noexcept {
  std::uint64_t hash = 0;
  crypto_shorthash(reinterpret_cast<std::uint8_t*>(&hash), static_cast<const std::uint8_t*>(data),
                   bytes, key);
  return hash;
}

}  // namespace

Status draw_secret(Secret* out) noexcept {
  Secret secret;
  if (!draw(secret.bytes, sizeof secret.bytes))
    return Status::error(Code::unsupported, "the kernel gives no random numbers");
  *out = secret;
  return Status::success();
}

Proof prove(const Secret& secret, const char* purpose, const void* about,
            std::size_t bytes) noexcept {
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret.bytes, sizeof secret.bytes, sizeof Proof::bytes);
  // The zero at its end keeps a purpose apart from what follows.
  crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(purpose),
                            std::strlen(purpose) + 1);
  crypto_generichash_update(&state, static_cast<const std::uint8_t*>(about), bytes);
  Proof proof;
  crypto_generichash_final(&state, proof.bytes, sizeof proof.bytes);
  return proof;
}

bool equal(const Proof& one, const Proof& other) noexcept {
  return sodium_memcmp(one.bytes, other.bytes, sizeof one.bytes) == 0;
}

std::uint32_t tag_of(const Proof& key, const void* message, std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>(short_hash(key.bytes, message, bytes));
}

Status Numbers::open() noexcept {
  if (!draw(key_, sizeof key_))
    return Status::error(Code::unsupported, "the kernel gives no random numbers");
  return Status::success();
}

std::uint64_t Numbers::next() noexcept {
  ++count_;
  return short_hash(key_, &count_, sizeof count_);
}

}  // namespace tutti
