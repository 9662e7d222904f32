// Pairs of value and index: minloc maxloc.
#include "base/pairs.hpp"
#include "base/reduction_kernels.hpp"
#include "base/reduction_scalar.hpp"

namespace tutti {
namespace {

struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};

/// A FoldFunction. Padding between and behind the members of `out` is left as it is.
template <class P, class Before>
void fold(const void* left, const void* right, void* out, std::size_t count, const Reduction&) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto a = scalar::load<P>(left, i);
    const auto b = scalar::load<P>(right, i);
    const bool take_left = Before()(a.value, b.value);
    const auto lower = a.index < b.index ? a.index : b.index;
    const auto of_right = a.value == b.value ? lower : b.index;
    auto* to = static_cast<char*>(out) + i * sizeof(P);
    scalar::store(take_left ? a.value : b.value, to + offsetof(P, value));
    scalar::store(take_left ? a.index : of_right, to + offsetof(P, index));
  }
}

}  // namespace

FoldFunction find_pair_kernel(Op op, Type type) noexcept {
  if (op != Op::minloc && op != Op::maxloc) return nullptr;
  return with_pair(type, FoldFunction{nullptr}, [op]<class P>() -> FoldFunction {
    return op == Op::minloc ? &fold<P, Less> : &fold<P, Greater>;
  });
}

}  // namespace tutti
