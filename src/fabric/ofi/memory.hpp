// Registering memory with a provider of libfabric.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "fabric/local/local_memory.hpp"
#include "fabric/secret/secret.hpp"

namespace tutti::ofi {

class Registrar final : public tutti::Registrar {
 public:
  /// `provider_keys`: the provider chooses the keys. Else they are drawn, of `key_bytes`: who has
  /// no key of a region cannot name it. Fails where the system has no random numbers.
  /// `twin`: memory is registered in this domain too, under the same key; nullptr: there is none.
  Status open(fid_domain* domain, fid_domain* twin, bool provider_keys,
              std::size_t key_bytes) noexcept {
    domain_ = domain;
    twin_ = twin;
    provider_keys_ = provider_keys;
    if (key_bytes < sizeof key_mask_) key_mask_ = (std::uint64_t{1} << (8 * key_bytes)) - 1;
    return keys_.open();
  }

  bool add(void* base, std::size_t bytes, bool written, Registration* out) noexcept override {
    return add_with(base, bytes, FI_WRITE | (written ? FI_READ : 0), out) == 0;
  }
  /// For peers, too. 0, or libfabric's error.
  int add_for_peers(void* base, std::size_t bytes, Registration* out) noexcept {
    return add_with(base, bytes, FI_WRITE | FI_READ | FI_REMOTE_READ | FI_REMOTE_WRITE, out);
  }
  void remove(const Registration& registration) noexcept override {
    fi_close(&static_cast<fid_mr*>(registration.region)->fid);
    if (registration.twin != nullptr) fi_close(&static_cast<fid_mr*>(registration.twin)->fid);
  }

 private:
  int add_with(void* base, std::size_t bytes, std::uint64_t access, Registration* out) noexcept {
    fid_mr* region = nullptr;
    fid_mr* twin = nullptr;
    int error = -FI_ENOKEY;
    // A number that is in use already is drawn again.
    for (int attempt = 0; attempt < 4 && error == -FI_ENOKEY; ++attempt) {
      const std::uint64_t key = provider_keys_ ? 0 : keys_.next() & key_mask_;
      error = fi_mr_reg(domain_, base, bytes, access, 0, key, 0, &region, nullptr);
      if (error != 0 || twin_ == nullptr) continue;
      error = fi_mr_reg(twin_, base, bytes, access, 0, key, 0, &twin, nullptr);
      if (error != 0) fi_close(&region->fid);
    }
    if (error != 0) return error;
    *out = {region, twin, reinterpret_cast<std::uint64_t>(fi_mr_desc(region)), bytes};
    return 0;
  }
  fid_domain* domain_ = nullptr;
  fid_domain* twin_ = nullptr;
  bool provider_keys_ = false;
  std::uint64_t key_mask_ = ~std::uint64_t{0};
  Numbers keys_;
};

}  // namespace tutti::ofi
