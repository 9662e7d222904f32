// The loop of the vectorised kernels. Included once per instruction set, after highway.h.
//
// A kernel is fold<Lanes, Operator>: `Lanes` says how elements come from and go to memory,
// `Operator` what to do with two vectors, and Operator::Scalar what to do with two elements.
#if defined(TUTTI_REDUCTION_LOOP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCTION_LOOP_INL
#undef TUTTI_REDUCTION_LOOP_INL
#else
#define TUTTI_REDUCTION_LOOP_INL
#endif

#include <cstddef>
#include <cstdint>

#include "base/reduction.hpp"
#include "base/reduction_scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// False where there are no vectors, and the compiler vectorises what it can of scalar::fold.
constexpr bool kVectors = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

/// Elements of one lane that are computed on as they are stored.
template <class T>
struct PlainLanes {
  using Lane = T;                                          // of the vectors
  static constexpr std::size_t kElementLanes = 1;          // of one element
  static constexpr std::size_t kElementBytes = sizeof(T);  // of one element in memory

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const unsigned char* from) {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> vector, unsigned char* to) {
    hn::StoreU(vector, d, reinterpret_cast<T*>(to));
  }
};

/// Fewer than `elements`, at least one. Two vectors of half the size, which may overlap, do what is
/// at least half; both are read before either is written, since `out` may be an operand.
template <class Lanes, class Operator, std::size_t elements>
HWY_INLINE void fold_few(const unsigned char* left, const unsigned char* right, unsigned char* out,
                         std::size_t count) {
  constexpr std::size_t half = elements / 2;
  if constexpr (half != 0) {
    if (count < half) return fold_few<Lanes, Operator, half>(left, right, out, count);
    const hn::CappedTag<typename Lanes::Lane, half * Lanes::kElementLanes> d;
    const std::size_t last = (count - half) * Lanes::kElementBytes;
    const auto low = Operator::combine(d, Lanes::load(d, left), Lanes::load(d, right));
    const auto high =
        Operator::combine(d, Lanes::load(d, left + last), Lanes::load(d, right + last));
    Lanes::store(d, low, out);
    Lanes::store(d, high, out + last);
  }
}

/// A FoldFunction. Any alignment; `out` may be an operand. Whole vectors in the middle, with
/// aligned stores where elements are aligned at all; the first and the last vector overlap them,
/// and so are computed before anything is stored.
template <class Lanes, class Operator>
void fold(const void* left_operand, const void* right_operand, void* result, std::size_t count,
          const Reduction&) {
  const hn::ScalableTag<typename Lanes::Lane> d;
  constexpr std::size_t kElements = hn::MaxLanes(d) / Lanes::kElementLanes;  // of one vector
  constexpr std::size_t kStep = kElements * Lanes::kElementBytes;
  const auto* left = static_cast<const unsigned char*>(left_operand);
  const auto* right = static_cast<const unsigned char*>(right_operand);
  auto* out = static_cast<unsigned char*>(result);
  const auto at = [&](std::size_t offset) HWY_ATTR {
    return Operator::combine(d, Lanes::load(d, left + offset), Lanes::load(d, right + offset));
  };

  if (count < kElements) {
    if (count != 0) fold_few<Lanes, Operator, kElements>(left, right, out, count);
    return;
  }
  const std::size_t last = (count - kElements) * Lanes::kElementBytes;
  const auto tail = at(last);
  std::size_t i = 0;
  if (last >= 8 * kStep) {
    const auto head = at(0);
    const std::size_t skip = -reinterpret_cast<std::uintptr_t>(out) % kStep;
    if (skip % Lanes::kElementBytes == 0) i = skip;
    const auto second = at(i);  // before the head is stored, which overlaps it
    Lanes::store(d, head, out);
    Lanes::store(d, second, out + i);
    for (i += kStep; i + 4 * kStep <= last; i += 4 * kStep) {
      const auto v0 = at(i);
      const auto v1 = at(i + kStep);
      const auto v2 = at(i + 2 * kStep);
      const auto v3 = at(i + 3 * kStep);
      Lanes::store(d, v0, out + i);
      Lanes::store(d, v1, out + i + kStep);
      Lanes::store(d, v2, out + i + 2 * kStep);
      Lanes::store(d, v3, out + i + 3 * kStep);
    }
  }
  for (; i < last; i += kStep) Lanes::store(d, at(i), out + i);
  Lanes::store(d, tail, out + last);
}

/// The kernel for elements of type T.
template <class T, class Operator>
constexpr FoldFunction plain_kernel() {
  if constexpr (kVectors) {
    return &fold<PlainLanes<T>, Operator>;
  } else {
    return &scalar::fold<typename Operator::Scalar, T>;
  }
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
