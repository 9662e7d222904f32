// Registering memory with a provider of libfabric.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>

#include "fabric/local/local_memory.hpp"

namespace tutti::ofi {

class Registrar final : public tutti::Registrar {
 public:
  /// `provider_keys`: the provider chooses the keys.
  void open(fid_domain* domain, bool provider_keys) noexcept {
    domain_ = domain;
    provider_keys_ = provider_keys;
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
  }

 private:
  int add_with(void* base, std::size_t bytes, std::uint64_t access, Registration* out) noexcept {
    fid_mr* region = nullptr;
    const int error = fi_mr_reg(domain_, base, bytes, access, 0, provider_keys_ ? 0 : next_key_++,
                                0, &region, nullptr);
    if (error != 0) return error;
    *out = {region, reinterpret_cast<std::uint64_t>(fi_mr_desc(region)), bytes};
    return 0;
  }
  fid_domain* domain_ = nullptr;
  bool provider_keys_ = false;
  std::uint64_t next_key_ = 1;
};

}  // namespace tutti::ofi
