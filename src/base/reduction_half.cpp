// IEEE half precision and bfloat16: sum prod min max, computed in float. Rounding twice is not
// seen: float has more than twice the digits of either.
#include "base/half.hpp"
#include "base/reduction_kernels.hpp"
#include "base/reduction_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/reduction_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/reduction_float_operators-inl.hpp"
#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

/// Where there are instructions that convert; Highway's replacements for them do not round to
/// nearest.
constexpr bool kConverts = kVectors && HWY_TARGET != HWY_SSE2;

struct HalfLanes {
  using Lane = float;
  [[maybe_unused]] static constexpr std::size_t kElementLanes = 1;
  [[maybe_unused]] static constexpr std::size_t kElementBytes = 2;

  static float to_float(std::uint16_t bits) { return half_to_float(bits); }
  static std::uint16_t from_float(float value) { return float_to_half(value); }

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const unsigned char* from) {
    const hn::Rebind<hwy::float16_t, D> stored;
    return hn::PromoteTo(d, hn::LoadU(stored, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> vector, unsigned char* to) {
    const hn::Rebind<hwy::float16_t, D> stored;
    hn::StoreU(hn::DemoteTo(stored, vector), stored, reinterpret_cast<hwy::float16_t*>(to));
  }
};

struct Bfloat16Lanes {
  using Lane = float;
  [[maybe_unused]] static constexpr std::size_t kElementLanes = 1;
  [[maybe_unused]] static constexpr std::size_t kElementBytes = 2;

  static float to_float(std::uint16_t bits) { return bfloat16_to_float(bits); }
  static std::uint16_t from_float(float value) { return float_to_bfloat16(value); }

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const unsigned char* from) {
    const hn::Rebind<std::uint16_t, D> stored;
    const hn::Rebind<std::uint32_t, D> bits;
    const auto loaded = hn::LoadU(stored, reinterpret_cast<const std::uint16_t*>(from));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, loaded)));
  }
  // Not hn::DemoteTo(bfloat16_t), which cuts.
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> vector, unsigned char* to) {
    const hn::Rebind<std::uint16_t, D> stored;
    const hn::Rebind<std::uint32_t, D> unsigned_bits;
    const hn::Rebind<std::int32_t, D> signed_bits;
    const auto bits = hn::BitCast(unsigned_bits, vector);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(unsigned_bits, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(unsigned_bits, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(unsigned_bits, 0x400000));
    const auto nan = hn::BitCast(unsigned_bits, hn::VecFromMask(d, hn::IsNaN(vector)));
    const auto chosen = hn::Or(hn::And(nan, quiet), hn::AndNot(nan, rounded));
    const auto upper = hn::BitCast(signed_bits, hn::ShiftRight<16>(chosen));
    hn::StoreU(hn::DemoteTo(stored, upper), stored, reinterpret_cast<std::uint16_t*>(to));
  }
};

/// An operator on stored values, by way of float.
template <class Lanes, class Operator>
struct ThroughFloat {
  template <class T>
  static T combine(T left, T right) {
    return Lanes::from_float(Operator::combine(Lanes::to_float(left), Lanes::to_float(right)));
  }
};

template <class Lanes, class Operator>
constexpr FoldFunction kernel() {
  if constexpr (kConverts) {
    return &fold<Lanes, Operator>;
  } else {
    return &scalar::fold<ThroughFloat<Lanes, typename Operator::Scalar>, std::uint16_t>;
  }
}

template <class Lanes>
FoldFunction small_float(Op op) {
  switch (op) {
    case Op::sum:
      return kernel<Lanes, Sum>();
    case Op::prod:
      return kernel<Lanes, Prod>();
    case Op::min:
      return kernel<Lanes, Min>();
    case Op::max:
      return kernel<Lanes, Max>();
    default:
      return nullptr;
  }
}

FoldFunction find(Op op, Type type) {
  switch (type) {
    case Type::f16:
      return small_float<HalfLanes>(op);
    case Type::bf16:
      return small_float<Bfloat16Lanes>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

FoldFunction find_half_kernel(Op op, Type type, Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find(op, type));
}

}  // namespace tutti
#endif
