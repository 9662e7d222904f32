// long double and quadruple precision: sum prod min max; complex long double: sum prod. No vector
// instructions exist for these.
#include <complex>

#include "base/reduction_kernels.hpp"
#include "base/reduction_scalar.hpp"

namespace tutti {
namespace {

#if defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 Quad;
#elif __LDBL_MANT_DIG__ == 113
using Quad = long double;
#else
#error "no quadruple precision: leave f128 out of find_wide_kernel and of the tests"
#endif

template <class T>
FoldFunction real(Op op) {
  switch (op) {
    case Op::sum:
      return &scalar::fold<scalar::Sum, T>;
    case Op::prod:
      return &scalar::fold<scalar::Prod, T>;
    case Op::min:
      return &scalar::fold<scalar::Min, T>;
    case Op::max:
      return &scalar::fold<scalar::Max, T>;
    default:
      return nullptr;
  }
}

template <class T>
FoldFunction complex(Op op) {
  switch (op) {
    case Op::sum:
      return &scalar::fold<scalar::Sum, std::complex<T>>;
    case Op::prod:
      return &scalar::fold<scalar::Prod, std::complex<T>>;
    default:
      return nullptr;
  }
}

}  // namespace

FoldFunction find_wide_kernel(Op op, Type type) noexcept {
  switch (type) {
    case Type::long_double:
      return real<long double>(op);
    case Type::f128:
      return real<Quad>(op);
    case Type::c_long_double:
      return complex<long double>(op);
    default:
      return nullptr;
  }
}

}  // namespace tutti
