// Pairs of value and index: minloc maxloc.
#include "base/isa_targets.hpp"
#include "base/pairs.hpp"
#include "base/reduction_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/reduction_pair.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

struct Less {
  template <class T>
  static bool one(T a, T b) {
    return a < b;
  }
  template <class V>
  static HWY_INLINE auto all(V a, V b) {
    return hn::Lt(a, b);
  }
};

struct Greater {
  template <class T>
  static bool one(T a, T b) {
    return a > b;
  }
  template <class V>
  static HWY_INLINE auto all(V a, V b) {
    return hn::Gt(a, b);
  }
};

/// One pair after the other; padding in `out` is left as it is.
template <class P, class Before>
void fold_pairs(const void* left, const void* right, void* out, std::size_t count,
                const Reduction&) {
  using V = decltype(P::value);
  using I = decltype(P::index);
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto* a = static_cast<const char*>(left) + i * sizeof(P);
    const auto* b = static_cast<const char*>(right) + i * sizeof(P);
    auto* to = static_cast<char*>(out) + i * sizeof(P);
    const V a_value = scalar::load<V>(a), b_value = scalar::load<V>(b);
    const I a_index = scalar::load<I>(a + offsetof(P, index));
    const I b_index = scalar::load<I>(b + offsetof(P, index));
    const bool before = Before::one(a_value, b_value);
    const I lower = a_index < b_index ? a_index : b_index;
    const I of_right = a_value == b_value ? lower : b_index;
    scalar::store<V>(before ? a_value : b_value, to);
    scalar::store<I>(before ? a_index : of_right, to + offsetof(P, index));
  }
}

/// Pairs as vectors of two lanes each, of bits. `Value` and `Index` are what the lanes are once
/// the padding is shifted out of them. Padding in `out` becomes that of an operand.
template <class Value, int value_padding, class Index, int index_padding, class Before>
struct Locate {
  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    const hn::Rebind<Value, D> values;
    const hn::Rebind<Index, D> indices;
    // The values in both lanes; what is no value must not be compared as one, for it may trap.
    const auto a = hn::BitCast(values, hn::DupEven(hn::ShiftLeft<value_padding>(left)));
    const auto b = hn::BitCast(values, hn::DupEven(hn::ShiftLeft<value_padding>(right)));
    const auto i = hn::BitCast(indices, hn::ShiftLeft<index_padding>(left));
    const auto j = hn::BitCast(indices, hn::ShiftLeft<index_padding>(right));
    const auto before = hn::BitCast(d, hn::VecFromMask(values, Before::all(a, b)));
    const auto equal = hn::BitCast(d, hn::VecFromMask(values, hn::Eq(a, b)));
    const auto lower = hn::BitCast(d, hn::VecFromMask(indices, hn::Lt(i, j)));
    const auto index_of_left = hn::Or(before, hn::And(equal, lower));
    const auto of_left = hn::OddEven(index_of_left, before);
    return hn::Or(hn::And(of_left, left), hn::AndNot(of_left, right));
  }
};

template <class P, class Before>
constexpr FoldFunction pair_kernel() {
  using V = decltype(P::value);
  using I = decltype(P::index);
  if constexpr (!kVectors || sizeof(V) > 8) {
    return &fold_pairs<P, Before>;
  } else if constexpr (sizeof(P) == 16) {
    using Index = std::conditional_t<std::is_integral_v<I>, std::int64_t, I>;
    constexpr int kPadding = 64 - 8 * static_cast<int>(sizeof(I));
    return &fold<TwoLanes<std::uint64_t>, Locate<V, 0, Index, kPadding, Before>>;
  } else {
    using Value = std::conditional_t<std::is_integral_v<V>, std::int32_t, V>;
    constexpr int kPadding = 32 - 8 * static_cast<int>(sizeof(V));
    return &fold<TwoLanes<std::uint32_t>, Locate<Value, kPadding, I, 0, Before>>;
  }
}

FoldFunction find(Op op, Type type) {
  return with_pair(type, FoldFunction{nullptr}, [op]<class P>() -> FoldFunction {
    if (op == Op::minloc) return pair_kernel<P, Less>();
    if (op == Op::maxloc) return pair_kernel<P, Greater>();
    return nullptr;
  });
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

FoldFunction find_pair_kernel(Op op, Type type, Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find(op, type));
}

}  // namespace tutti
#endif
