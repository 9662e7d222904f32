// The secret of a job, by which its ranks are told from strangers, and what is made of it.
//
// It is drawn by the kernel and travels by the job's bootstrap, so by the MPI's own launch; nothing
// of it is ever sent by tutti itself. What a rank shows to another instead is a proof: a keyed hash
// (BLAKE2b) that is good for one purpose between the two (docs/security.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

namespace tutti {

struct Secret {
  std::uint8_t bytes[32] = {};
};

/// From the kernel's generator. Fails where the system has none.
Status draw_secret(Secret* out) noexcept;

/// That somebody knows a secret.
struct Proof {
  std::uint8_t bytes[16] = {};
};

/// For `purpose`, and for the `bytes` at `about`: the same again on every rank of the job.
Proof prove(const Secret& secret, const char* purpose, const void* about,
            std::size_t bytes) noexcept;
/// In constant time.
bool equal(const Proof& one, const Proof& other) noexcept;

/// 32 bits that go with a short message (SipHash-2-4).
std::uint32_t tag_of(const Proof& key, const void* message, std::size_t bytes) noexcept;

/// Numbers that nobody can guess, without a system call for each. Not thread-safe.
class Numbers {
 public:
  /// Before the first number. Fails where the system has no random numbers.
  Status open() noexcept;
  std::uint64_t next() noexcept;

 private:
  std::uint8_t key_[16] = {};
  std::uint64_t count_ = 0;
};

}  // namespace tutti
