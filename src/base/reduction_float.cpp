// float and double: sum prod min max; complex of these: sum prod.
#include <complex>

#include "base/isa_targets.hpp"
#include "base/reduction_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/reduction_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TUTTI_COMPLEX_PRODUCT  // once, not once per instruction set
#define TUTTI_COMPLEX_PRODUCT
namespace tutti {
namespace {

/// left * right after Annex G of C, into `left`. A function of its own for the baseline, because
/// gcc 12 makes vfmaddsub of it, -ffp-contract=off or not (hence -fno-tree-slp-vectorize, too).
template <class T>
__attribute__((noinline)) void multiply_complex(T* left, const T* right) {
  const auto product = std::complex<T>(left[0], left[1]) * std::complex<T>(right[0], right[1]);
  left[0] = product.real();
  left[1] = product.imag();
}

}  // namespace
}  // namespace tutti
#endif

#include "base/reduction_float_operators-inl.hpp"
#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

/// Of complex numbers: two lanes each, the real part first.
struct ComplexProd {
  using Scalar = scalar::Prod;

  template <class D, class V>
  static HWY_INLINE V combine(D d, V left, V right) {
    const auto direct = hn::Mul(left, hn::DupEven(right));  // ar*br, ai*br
    // DupOdd by the type of its argument: Highway's SCALAR has none, and does not come here.
    const auto crossed = hn::Mul(hn::Reverse2(d, left), DupOdd(right));  // ai*bi, ar*bi
    const auto product = hn::OddEven(hn::Add(direct, crossed), hn::Sub(direct, crossed));
    // Annex G of C: where both parts are NaN, an infinity may have been lost.
    const auto nan = hn::VecFromMask(d, hn::IsNaN(product));
    const auto both = hn::MaskFromVec(hn::And(nan, hn::Reverse2(d, nan)));
    if (HWY_LIKELY(hn::AllFalse(d, both))) return product;
    return one_by_one(d, left, right);
  }

 private:
  template <class D, class V>
  static HWY_NOINLINE V one_by_one(D d, V left, V right) {
    using T = hn::TFromD<D>;
    constexpr std::size_t kLanes = hn::MaxLanes(d);
    HWY_ALIGN T l[kLanes], r[kLanes];
    hn::Store(left, d, l);
    hn::Store(right, d, r);
    for (std::size_t i = 0; i < kLanes; i += 2) multiply_complex(l + i, r + i);
    return hn::Load(d, l);
  }
};

template <class T>
FoldFunction real(Op op) {
  switch (op) {
    case Op::sum:
      return plain_kernel<T, Sum>();
    case Op::prod:
      return plain_kernel<T, Prod>();
    case Op::min:
      return plain_kernel<T, Min>();
    case Op::max:
      return plain_kernel<T, Max>();
    default:
      return nullptr;
  }
}

template <class T, class Operator>
constexpr FoldFunction complex_kernel() {
  if constexpr (kVectors) {
    return &fold<TwoLanes<T>, Operator>;
  } else {
    return &scalar::fold<typename Operator::Scalar, std::complex<T>>;
  }
}

template <class T>
FoldFunction complex(Op op) {
  switch (op) {
    case Op::sum:
      return complex_kernel<T, Sum>();
    case Op::prod:
      return complex_kernel<T, ComplexProd>();
    default:
      return nullptr;
  }
}

FoldFunction find(Op op, Type type) {
  switch (type) {
    case Type::f32:
      return real<float>(op);
    case Type::f64:
      return real<double>(op);
    case Type::c32:
      return complex<float>(op);
    case Type::c64:
      return complex<double>(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

FoldFunction find_float_kernel(Op op, Type type, Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find(op, type));
}

}  // namespace tutti
#endif
