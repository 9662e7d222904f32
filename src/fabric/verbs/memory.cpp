#include "fabric/verbs/memory.hpp"

#include <cstring>
#include <new>

namespace tutti::verbs {

bool LocalMemory::open(ibv_pd* domain) noexcept {
  domain_ = domain;
  pool_.reset(new (std::nothrow) std::byte[kBlock * kBlocks]);
  if (!pool_) return false;
  const int access = IBV_ACCESS_LOCAL_WRITE;  // the macro combines it with another enumeration's
  pool_region_ = ibv_reg_mr(domain_, pool_.get(), kBlock * kBlocks, access);
  if (pool_region_ == nullptr) return false;
  for (std::size_t i = 0; i < kBlocks; ++i) free_blocks_.push_back(static_cast<std::int32_t>(i));
  return true;
}

void LocalMemory::close() noexcept {
  for (const auto& [start, region] : exposed_) ibv_dereg_mr(region);
  exposed_.clear();
  if (pool_region_ != nullptr) ibv_dereg_mr(pool_region_);
  pool_region_ = nullptr;
  domain_ = nullptr;
}

ibv_mr* LocalMemory::expose(void* base, std::size_t bytes, bool on_demand) noexcept {
  if (domain_ == nullptr) return nullptr;
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (on_demand) access |= IBV_ACCESS_ON_DEMAND;
  ibv_mr* region = ibv_reg_mr(domain_, base, bytes, static_cast<int>(access));
  if (region != nullptr) exposed_.emplace(reinterpret_cast<std::uintptr_t>(base), region);
  return region;
}

std::size_t LocalMemory::withdraw(ibv_mr* region) noexcept {
  for (auto place = exposed_.begin(); place != exposed_.end(); ++place) {
    if (place->second != region) continue;
    const std::size_t bytes = region->length;
    ibv_dereg_mr(region);
    exposed_.erase(place);
    return bytes;
  }
  return 0;
}

LocalMemory::Answer LocalMemory::acquire(void* local, std::size_t bytes, bool reads,
                                         Use* out) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(local);
  const auto after = exposed_.upper_bound(start);
  if (after != exposed_.begin()) {
    const auto& [base, region] = *std::prev(after);
    if (start - base <= region->length && bytes <= region->length - (start - base)) {
      *out = {static_cast<std::byte*>(local), region->lkey, -1, nullptr};
      return Answer::ready;
    }
  }
  if (bytes > kBlock) {
    ibv_mr* own = domain_ == nullptr
                      ? nullptr
                      : ibv_reg_mr(domain_, local, bytes, reads ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (own == nullptr) return Answer::refused;
    *out = {static_cast<std::byte*>(local), own->lkey, -1, own};
    return Answer::ready;
  }
  if (free_blocks_.empty()) return Answer::later;
  const std::int32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  *out = {pool_.get() + static_cast<std::size_t>(block) * kBlock, pool_region_->lkey, block,
          nullptr};
  if (!reads) std::memcpy(out->address, local, bytes);
  return Answer::ready;
}

void LocalMemory::release(Use& use, void* local, std::size_t bytes, bool deliver) noexcept {
  if (use.own != nullptr) ibv_dereg_mr(use.own);
  if (use.block >= 0) {
    if (deliver) std::memcpy(local, use.address, bytes);
    free_blocks_.push_back(use.block);
  }
  use = Use{};
}

}  // namespace tutti::verbs
