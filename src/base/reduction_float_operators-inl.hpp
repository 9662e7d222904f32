// The operators on vectors of float and double. Included once per instruction set, after highway.h.
#if defined(TUTTI_REDUCTION_FLOAT_OPERATORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCTION_FLOAT_OPERATORS_INL
#undef TUTTI_REDUCTION_FLOAT_OPERATORS_INL
#else
#define TUTTI_REDUCTION_FLOAT_OPERATORS_INL
#endif

#include "base/reduction_scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  using Scalar = scalar::Sum;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Add(left, right);
  }
};

struct Prod {
  using Scalar = scalar::Prod;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Mul(left, right);
  }
};

// Highway leaves open what its Min and Max do with NaN and with zeros of both signs. The
// instructions of x86 do what is wanted of them: take the second operand.
#if HWY_ARCH_X86

struct Min {
  using Scalar = scalar::Min;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Min(right, left);
  }
};

struct Max {
  using Scalar = scalar::Max;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::Max(right, left);
  }
};

#else

struct Min {
  using Scalar = scalar::Min;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::IfThenElse(hn::Lt(right, left), right, left);
  }
};

struct Max {
  using Scalar = scalar::Max;

  template <class D, class V>
  static HWY_INLINE V combine(D, V left, V right) {
    return hn::IfThenElse(hn::Gt(right, left), right, left);
  }
};

#endif

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
