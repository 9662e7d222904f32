#include "base/copy.hpp"

#include <cstdint>

#include "base/copy_chosen.hpp"
#include "base/copy_kernel.hpp"
#include "base/isa_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void stream(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#else

namespace hn = hwy::HWY_NAMESPACE;

/// The first and the last vector at any address; between them, stores are aligned and done by
/// `store(vector, address)`.
template <class Store>
HWY_INLINE void copy_by(void* to, const void* from, std::size_t bytes, Store store) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  static_assert(kSmallCopy >= 4 * kStep);
  const auto* source = static_cast<const std::uint8_t*>(from);
  auto* target = static_cast<std::uint8_t*>(to);
  const std::size_t last = bytes - kStep;
  hn::StoreU(hn::LoadU(d, source), d, target);
  hn::StoreU(hn::LoadU(d, source + last), d, target + last);
  std::size_t i = kStep - reinterpret_cast<std::uintptr_t>(target) % kStep;
  for (; i + 4 * kStep <= last; i += 4 * kStep) {
    const auto v0 = hn::LoadU(d, source + i);
    const auto v1 = hn::LoadU(d, source + i + kStep);
    const auto v2 = hn::LoadU(d, source + i + 2 * kStep);
    const auto v3 = hn::LoadU(d, source + i + 3 * kStep);
    store(v0, target + i);
    store(v1, target + i + kStep);
    store(v2, target + i + 2 * kStep);
    store(v3, target + i + 3 * kStep);
  }
  for (; i < last; i += kStep) store(hn::LoadU(d, source + i), target + i);
}

void copy(void* to, const void* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  copy_by(to, from, bytes, [d](auto v, std::uint8_t* p) HWY_ATTR { hn::Store(v, d, p); });
}

void stream(void* to, const void* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  copy_by(to, from, bytes, [d](auto v, std::uint8_t* p) HWY_ATTR { hn::Stream(v, d, p); });
  hwy::FlushStream();
}

#endif

CopyFunction find() { return &copy; }
CopyFunction find_streaming() { return &stream; }

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
namespace {

constexpr std::size_t kChosen = 16384;  // less is not worth the choice

}  // namespace

CopyFunction find_copy_kernel(Isa isa) noexcept { TUTTI_RETURN_FOR_ISA(isa, find()); }

CopyFunction find_streaming_copy_kernel(Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find_streaming());
}

void copy_large(void* to, const void* from, std::size_t bytes) noexcept {
  static const CopyFunction vectors = find_copy_kernel(widest_isa());
  if (bytes < kChosen || !has_string_copy()) return vectors(to, from, bytes);
  static thread_local StoreChoice choice(0, 1);
  copy_chosen(choice, to, from, bytes,
              [](Stores stores, void* target, const void* source, std::size_t length) {
                stores == Stores::string ? copy_string(target, source, length)
                                         : vectors(target, source, length);
              });
}

void copy_string(void* to, const void* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  copy_large(to, from, bytes);
#endif
}

/// Sanitizers do not see what they copy.
bool has_string_copy() noexcept {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool has = has_fast_strings();
  return has;
#endif
}

void copy_streaming(void* to, const void* from, std::size_t bytes) noexcept {
  static const CopyFunction copy = find_streaming_copy_kernel(widest_isa());
  copy(to, from, bytes);
}

}  // namespace tutti
#endif
