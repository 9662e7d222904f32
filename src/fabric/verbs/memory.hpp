// Registering memory with an RDMA device.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "fabric/local/local_memory.hpp"

namespace tutti::verbs {

class Registrar final : public tutti::Registrar {
 public:
  void open(ibv_pd* domain) noexcept { domain_ = domain; }

  bool add(void* base, std::size_t bytes, bool written, Registration* out) noexcept override {
    return add_with(base, bytes, written ? IBV_ACCESS_LOCAL_WRITE : 0, out);
  }
  /// For peers, too. Where it is refused errno says why. `on_demand`: without pinning it.
  bool add_for_peers(void* base, std::size_t bytes, bool on_demand, Registration* out) noexcept {
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (on_demand) access |= IBV_ACCESS_ON_DEMAND;
    return add_with(base, bytes, static_cast<int>(access), out);
  }
  void remove(const Registration& registration) noexcept override {
    ibv_dereg_mr(static_cast<ibv_mr*>(registration.region));
  }

 private:
  bool add_with(void* base, std::size_t bytes, int access, Registration* out) noexcept {
    ibv_mr* const region = ibv_reg_mr(domain_, base, bytes, access);
    if (region == nullptr) return false;
    *out = {region, nullptr, region->lkey, bytes};
    return true;
  }
  ibv_pd* domain_ = nullptr;
};

}  // namespace tutti::verbs
