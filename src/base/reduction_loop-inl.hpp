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
    if constexpr (hn::MaxLanes(D()) == 1) {  // LoadU would read it as an aligned T
      return hn::Set(d, scalar::load<T>(from));
    } else {
      return hn::LoadU(d, reinterpret_cast<const T*>(from));
    }
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> vector, unsigned char* to) {
    if constexpr (hn::MaxLanes(D()) == 1) {
      scalar::store<T>(hn::GetLane(vector), to);
    } else {
      hn::StoreU(vector, d, reinterpret_cast<T*>(to));
    }
  }
};

/// Elements of two lanes, which are two members of the same size.
template <class T>
struct TwoLanes : PlainLanes<T> {
  static constexpr std::size_t kElementLanes = 2;
  static constexpr std::size_t kElementBytes = 2 * sizeof(T);
};

/// Fewer than `elements` elements: half a vector, a quarter and so on, as the bits of `count` say.
/// Not with vectors that overlap: who reads the result at once would wait for both to be written.
template <class Lanes, class Operator, std::size_t elements>
HWY_INLINE void fold_rest(const unsigned char* left, const unsigned char* right, unsigned char* out,
                          std::size_t count) {
  constexpr std::size_t half = elements / 2;
  if constexpr (half != 0) {
    if ((count & half) != 0) {
      const hn::CappedTag<typename Lanes::Lane, half * Lanes::kElementLanes> d;
      Lanes::store(d, Operator::combine(d, Lanes::load(d, left), Lanes::load(d, right)), out);
      left += half * Lanes::kElementBytes;
      right += half * Lanes::kElementBytes;
      out += half * Lanes::kElementBytes;
    }
    fold_rest<Lanes, Operator, half>(left, right, out, count);
  }
}

/// Elements up to the first that starts a vector of `step` bytes; 0 where none ever does.
template <class Lanes>
std::size_t elements_to_alignment(const unsigned char* out, std::size_t step) {
  const std::size_t bytes = -reinterpret_cast<std::uintptr_t>(out) % step;
  return bytes % Lanes::kElementBytes == 0 ? bytes / Lanes::kElementBytes : 0;
}

/// A FoldFunction. Any alignment; `out` may be an operand: everything is read before anything is
/// written at the same place.
template <class Lanes, class Operator>
void fold(const void* left_operand, const void* right_operand, void* result, std::size_t count,
          const Reduction&) {
  const hn::ScalableTag<typename Lanes::Lane> d;
  constexpr std::size_t kElements = hn::MaxLanes(d) / Lanes::kElementLanes;  // of one vector
  constexpr std::size_t kStep = kElements * Lanes::kElementBytes;
  const auto* left = static_cast<const unsigned char*>(left_operand);
  const auto* right = static_cast<const unsigned char*>(right_operand);
  auto* out = static_cast<unsigned char*>(result);
  const auto advance = [&](std::size_t elements) HWY_ATTR {
    left += elements * Lanes::kElementBytes;
    right += elements * Lanes::kElementBytes;
    out += elements * Lanes::kElementBytes;
    count -= elements;
  };
  const auto at = [&](std::size_t vector) HWY_ATTR {
    return Operator::combine(d, Lanes::load(d, left + vector * kStep),
                             Lanes::load(d, right + vector * kStep));
  };

  if (count >= 16 * kElements) {
    // Stores that cross cache lines cost; loads that do, much less.
    const std::size_t head = elements_to_alignment<Lanes>(out, kStep);
    fold_rest<Lanes, Operator, kElements>(left, right, out, head);
    advance(head);
    while (count >= 4 * kElements) {
      const auto v0 = at(0);
      const auto v1 = at(1);
      const auto v2 = at(2);
      const auto v3 = at(3);
      Lanes::store(d, v0, out);
      Lanes::store(d, v1, out + kStep);
      Lanes::store(d, v2, out + 2 * kStep);
      Lanes::store(d, v3, out + 3 * kStep);
      advance(4 * kElements);
    }
  }
  while (count >= kElements) {
    Lanes::store(d, at(0), out);
    advance(kElements);
  }
  fold_rest<Lanes, Operator, kElements>(left, right, out, count);
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
