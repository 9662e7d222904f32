// IEEE half precision and bfloat16: sum prod min max, computed in float. Rounding twice is not
// seen: float has more than twice the digits of either.
#include "base/half.hpp"
#include "base/isa_targets.hpp"
#include "base/reduction_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/reduction_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/reduction_float_operators-inl.hpp"
#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

/// Where there are instructions that convert half precision; Highway's replacements for them do
/// not round to nearest.
constexpr bool kConverts = kVectors && HWY_TARGET != HWY_SSE2;

struct HalfLanes {
  using Lane = float;
  [[maybe_unused]] static constexpr std::size_t kElementLanes = 1;
  [[maybe_unused]] static constexpr std::size_t kElementBytes = 2;

  // As 16-bit integers in memory: Highway 1.0 has two functions for few halves on ARM.
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const unsigned char* from) {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<std::uint16_t, D> stored;
    return hn::PromoteTo(
        d, hn::BitCast(half, hn::LoadU(stored, reinterpret_cast<const std::uint16_t*>(from))));
  }
  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> vector, unsigned char* to) {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<std::uint16_t, D> stored;
    hn::StoreU(hn::BitCast(stored, hn::DemoteTo(half, vector)), stored,
               reinterpret_cast<std::uint16_t*>(to));
  }
};

/// An operator on vectors of bfloat16, as 16-bit lanes. The odd and the even lanes of a vector
/// become floats in place, the upper half of which they are.
template <class Operator>
struct OnBfloat16 {
  using Scalar = typename Operator::Scalar;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    if constexpr (hn::MaxLanes(D()) == 1) {
      const float result = Scalar::combine(bfloat16_to_float(hn::GetLane(left)),
                                           bfloat16_to_float(hn::GetLane(right)));
      return hn::Set(d, float_to_bfloat16(result));
    } else {
      const hn::RepartitionToWide<D> bits;
      const auto l = hn::BitCast(bits, left);
      const auto r = hn::BitCast(bits, right);
      const auto upper = hn::Set(bits, 0xffff0000);
      const auto odd = combine_floats(bits, hn::And(l, upper), hn::And(r, upper));
      const auto even = combine_floats(bits, hn::ShiftLeft<16>(l), hn::ShiftLeft<16>(r));
      return hn::BitCast(d, hn::Or(hn::And(odd, upper), hn::ShiftRight<16>(even)));
    }
  }

 private:
  /// Floats given and returned as bits; the upper 16 of the result are rounded. A NaN needs no
  /// care: its lower bits come from an operand and are zero, so nothing is carried.
  template <class D, class V>
  static HWY_INLINE V combine_floats(D bits, V left, V right) {
    const hn::RebindToFloat<D> d;
    const auto result =
        hn::BitCast(bits, Operator::combine(d, hn::BitCast(d, left), hn::BitCast(d, right)));
    const auto odd = hn::And(hn::ShiftRight<16>(result), hn::Set(bits, 1));
    return hn::Add(result, hn::Add(odd, hn::Set(bits, 0x7fff)));
  }
};

/// The same, one stored value at a time.
template <class Operator>
struct OnOneHalf {
  static std::uint16_t combine(std::uint16_t left, std::uint16_t right) {
    return float_to_half(Operator::combine(half_to_float(left), half_to_float(right)));
  }
};

template <class Operator>
struct OnOneBfloat16 {
  static std::uint16_t combine(std::uint16_t left, std::uint16_t right) {
    return float_to_bfloat16(Operator::combine(bfloat16_to_float(left), bfloat16_to_float(right)));
  }
};

struct Half {
  template <class Operator>
  static constexpr FoldFunction kernel() {
    if constexpr (kConverts) {
      return &fold<HalfLanes, Operator>;
    } else {
      return &scalar::fold<OnOneHalf<typename Operator::Scalar>, std::uint16_t>;
    }
  }
};

struct Bfloat16 {
  template <class Operator>
  static constexpr FoldFunction kernel() {
    if constexpr (kVectors) {
      return &fold<PlainLanes<std::uint16_t>, OnBfloat16<Operator>>;
    } else {
      return &scalar::fold<OnOneBfloat16<typename Operator::Scalar>, std::uint16_t>;
    }
  }
};

template <class Format>
FoldFunction find(Op op) {
  switch (op) {
    case Op::sum:
      return Format::template kernel<Sum>();
    case Op::prod:
      return Format::template kernel<Prod>();
    case Op::min:
      return Format::template kernel<Min>();
    case Op::max:
      return Format::template kernel<Max>();
    default:
      return nullptr;
  }
}

FoldFunction find(Op op, Type type) {
  switch (type) {
    case Type::f16:
      return find<Half>(op);
    case Type::bf16:
      return find<Bfloat16>(op);
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
