#include "fabric/local/local_memory.hpp"

#include <cstring>
#include <new>

namespace tutti {

bool LocalMemory::add_pool() noexcept {
  pool_.reset(new (std::nothrow) std::byte[kBlock * kBlocks]);
  if (!pool_ || !registrar_->add(pool_.get(), kBlock * kBlocks, true, &pool_region_)) return false;
  for (std::size_t i = 0; i < kBlocks; ++i) free_blocks_.push_back(static_cast<std::int32_t>(i));
  return true;
}

void LocalMemory::close() noexcept {
  if (registrar_ == nullptr) return;
  for (const auto& [start, registration] : known_) registrar_->remove(registration);
  known_.clear();
  if (pool_region_.region != nullptr) registrar_->remove(pool_region_);
  pool_region_ = Registration{};
  registrar_ = nullptr;
}

bool LocalMemory::know(void* base, const Registration& registration) noexcept {
  try {
    known_.emplace(reinterpret_cast<std::uintptr_t>(base), registration);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::size_t LocalMemory::forget(const void* region) noexcept {
  if (registrar_ == nullptr) return 0;
  for (auto place = known_.begin(); place != known_.end(); ++place) {
    if (place->second.region != region) continue;
    const Registration registration = place->second;
    known_.erase(place);
    registrar_->remove(registration);
    return registration.bytes;
  }
  return 0;
}

LocalMemory::Answer LocalMemory::acquire(void* local, std::size_t bytes, bool reads,
                                         Use* out) noexcept {
  if (registrar_ == nullptr) return Answer::refused;
  const auto start = reinterpret_cast<std::uintptr_t>(local);
  const auto after = known_.upper_bound(start);
  if (after != known_.begin()) {
    const auto& [base, known] = *std::prev(after);
    if (start - base <= known.bytes && bytes <= known.bytes - (start - base)) {
      *out = {static_cast<std::byte*>(local), known.token, -1, {}};
      return Answer::ready;
    }
  }
  if (bytes > kBlock) {
    Registration own;
    if (!registrar_->add(local, bytes, reads, &own)) return Answer::refused;
    *out = {static_cast<std::byte*>(local), own.token, -1, own};
    return Answer::ready;
  }
  if (free_blocks_.empty()) return Answer::later;
  const std::int32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  *out = {pool_.get() + static_cast<std::size_t>(block) * kBlock, pool_region_.token, block, {}};
  if (!reads) std::memcpy(out->address, local, bytes);
  return Answer::ready;
}

void LocalMemory::release(Use& use, void* local, std::size_t bytes, bool deliver) noexcept {
  if (use.own.region != nullptr && registrar_ != nullptr) registrar_->remove(use.own);
  if (use.block >= 0) {
    if (deliver) std::memcpy(local, use.address, bytes);
    free_blocks_.push_back(use.block);
  }
  use = Use{};
}

}  // namespace tutti
