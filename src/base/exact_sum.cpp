// Exact sums of float and double, and of complex numbers of them, in vectors.
//
// double  TwoSum (Knuth) keeps what each addition rounds off, and sums that with TwoSum again, as in
//         the twofold sums of Ogita, Rump and Oishi (2005). Where nothing was rounded off the second
//         time, sum + error is the exact sum, which the last addition rounds. Elsewhere the rest is
//         bounded, and if both ends of the bound round to the same number, that is it.
// float   is summed in double: hardly ever is anything rounded off.
//
// Where neither is certain, the accumulator sums the element. All operands are at hand, so nothing
// is lost by finding out at the end.
#include <algorithm>
#include <cstring>

#include "base/exact_accumulator.hpp"
#include "base/exact_kernels.hpp"
#include "base/float_environment.hpp"
#include "base/isa_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/exact_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/exact_element.hpp"
#include "base/reduction_loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
constexpr std::size_t kStep = hn::MaxLanes(D());
constexpr std::size_t kTile = 128;  // elements whose sums stay in the nearest cache meanwhile
static_assert(kTile % kStep == 0);

/// left + right, and what that has rounded off. Exact unless it overflows; then `error` is NaN.
HWY_INLINE V two_sum(V left, V right, V* error) {
  const V sum = hn::Add(left, right);
  const V shadow = hn::Sub(sum, left);
  *error = hn::Add(hn::Sub(left, hn::Sub(sum, shadow)), hn::Sub(right, shadow));
  return sum;
}

/// The sums of a tile. What `rest` is says the type.
struct State {
  HWY_ALIGN double sum[kTile];
  HWY_ALIGN double error[kTile];
  HWY_ALIGN double rest[kTile];
};

struct OfDouble {
  using Element = double;
  using Format = exact::Double;

  static HWY_INLINE V load(const unsigned char* from) {
    return PlainLanes<double>::load(D(), from);
  }
  static HWY_INLINE void begin(State& s, std::size_t i, V x) {
    const D d;
    hn::Store(x, d, s.sum + i);
    hn::Store(hn::Zero(d), d, s.error + i);
    hn::Store(hn::Zero(d), d, s.rest + i);
  }
  static HWY_INLINE void add(State& s, std::size_t i, V x) {
    const D d;
    V error, rest;
    hn::Store(two_sum(hn::Load(d, s.sum + i), x, &error), d, s.sum + i);
    hn::Store(two_sum(hn::Load(d, s.error + i), error, &rest), d, s.error + i);
    hn::Store(hn::Add(hn::Load(d, s.rest + i), hn::Abs(rest)), d, s.rest + i);
  }
  /// The sum is sum + error + something of at most `rest`, but for the roundings of that. Stores
  /// the result, and returns where it is certain.
  static HWY_INLINE M finish(const State& s, std::size_t i, double* out) {
    const D d;
    const V sum = hn::Load(d, s.sum + i), error = hn::Load(d, s.error + i);
    const V rest = hn::Load(d, s.rest + i), zero = hn::Zero(d);
    // Twice the rest, and more than what the subtraction below may round off.
    const V size = hn::Abs(error);
    const V margin = hn::Add(hn::Add(rest, rest), hn::Mul(size, hn::Set(d, 0x1p-51)));
    const V low = hn::Add(sum, hn::Sub(error, margin)), high = hn::Add(sum, hn::Add(error, margin));
    const M exact = hn::Eq(rest, zero);
    const M bounded = hn::And(hn::Eq(low, high), hn::Ge(size, hn::Set(d, 0x1p-900)));
    // Without an error the sum has the right sign where it is zero.
    const V result = hn::IfThenElse(hn::Eq(error, zero), sum, hn::Add(sum, error));
    hn::Store(result, d, out);
    return hn::Or(exact, bounded);
  }
};

struct OfFloat {
  using Element = float;
  using Format = exact::Single;
  using F = hn::Rebind<float, D>;

  static HWY_INLINE V load(const unsigned char* from) {
    return hn::PromoteTo(D(), PlainLanes<float>::load(F(), from));
  }
  /// Infinite where it overflows: what Highway does without vectors is finite then.
  static HWY_INLINE hn::Vec<F> demote(V x) {
    const F f;
    if constexpr (!kVectors) {
      HWY_ALIGN double wide[kStep];
      HWY_ALIGN float narrow[kStep];
      hn::Store(x, D(), wide);
      for (std::size_t i = 0; i < kStep; ++i) narrow[i] = static_cast<float>(wide[i]);
      return hn::Load(f, narrow);
    } else {
      return hn::DemoteTo(f, x);
    }
  }
  static HWY_INLINE void begin(State& s, std::size_t i, V x) {
    const D d;
    hn::Store(x, d, s.sum + i);
    hn::Store(hn::Zero(d), d, s.rest + i);
  }
  static HWY_INLINE void add(State& s, std::size_t i, V x) {
    const D d;
    V error;
    hn::Store(two_sum(hn::Load(d, s.sum + i), x, &error), d, s.sum + i);
    hn::Store(hn::Add(hn::Load(d, s.rest + i), hn::Abs(error)), d, s.rest + i);
  }
  /// As above, with the errors themselves in the rest.
  static HWY_INLINE M finish(const State& s, std::size_t i, float* out) {
    const D d;
    const V sum = hn::Load(d, s.sum + i), rest = hn::Load(d, s.rest + i);
    const V margin = hn::Add(hn::Add(rest, rest), hn::Mul(hn::Abs(sum), hn::Set(d, 0x1p-52)));
    const V low = hn::PromoteTo(d, demote(hn::Sub(sum, margin)));
    const V high = hn::PromoteTo(d, demote(hn::Add(sum, margin)));
    hn::Store(demote(sum), F(), out);
    return hn::Or(hn::Eq(rest, hn::Zero(d)), hn::Eq(low, high));
  }
};

/// Elements [first, first + count) of the vectors, at most kTile.
template <class Of>
class Tile {
 public:
  using Element = typename Of::Element;

  Tile(const Operands& operands, std::size_t first, std::size_t count)
      : operands_(operands), first_(first), count_(count) {}

  void sum_into(unsigned char* out) {
    each(0, &Of::begin);
    for (int member = 1; member < operands_.count; ++member) each(member, &Of::add);
    for (std::size_t i = 0; i < count_; i += kStep) {
      const M certain = Of::finish(state_, i, result_ + i);
      if (HWY_UNLIKELY(!hn::AllTrue(D(), certain))) accumulate(i, certain);
    }
    std::memcpy(out + first_ * sizeof(Element), result_, count_ * sizeof(Element));
  }

 private:
  template <class Step>
  HWY_INLINE void each(int member, Step step) {
    const auto* from =
        static_cast<const unsigned char*>(operands_[member]) + first_ * sizeof(Element);
    if (count_ % kStep != 0) {
      // The last vector must not read behind the operand.
      const std::size_t whole = count_ / kStep * kStep;
      std::memset(padded_, 0, sizeof padded_);
      std::memcpy(padded_, from + whole * sizeof(Element), (count_ - whole) * sizeof(Element));
      step(state_, whole, Of::load(reinterpret_cast<const unsigned char*>(padded_)));
    }
    for (std::size_t i = 0; i + kStep <= count_; i += kStep)
      step(state_, i, Of::load(from + i * sizeof(Element)));
  }
  /// The elements from `i` on that are not certain.
  HWY_NOINLINE void accumulate(std::size_t i, M certain) {
    HWY_ALIGN double sure[kStep];
    hn::Store(hn::IfThenElseZero(certain, hn::Set(D(), 1.0)), D(), sure);
    for (std::size_t lane = 0; lane < kStep && i + lane < count_; ++lane) {
      if (sure[lane] == 0)
        exact::sum_element<typename Of::Format>(operands_, first_ + i + lane, result_ + i + lane);
    }
  }

  const Operands& operands_;
  const std::size_t first_, count_;
  State state_;
  HWY_ALIGN Element padded_[kStep];
  HWY_ALIGN Element result_[kTile];
};

/// `numbers` of each element, which are summed for themselves.
template <class Of, std::size_t numbers>
void sum(const Operands& operands, void* out, std::size_t elements) {
  const FloatEnvironment environment;
  const std::size_t count = elements * numbers;
  for (std::size_t first = 0; first < count; first += kTile)
    Tile<Of>(operands, first, std::min(kTile, count - first))
        .sum_into(static_cast<unsigned char*>(out));
}

SumFunction find(Type type) {
  switch (type) {
    case Type::f32:
      return &sum<OfFloat, 1>;
    case Type::f64:
      return &sum<OfDouble, 1>;
    case Type::c32:
      return &sum<OfFloat, 2>;
    case Type::c64:
      return &sum<OfDouble, 2>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

SumFunction find_exact_vector_sum(Type type, Isa isa) noexcept {
  TUTTI_RETURN_FOR_ISA(isa, find(type));
}

SumFunction find_exact_sum(Type type) noexcept {
  const SumFunction vectors = find_exact_vector_sum(type, widest_isa());
  return vectors != nullptr ? vectors : find_exact_scalar_sum(type);
}

void make_exact(Reduction* reduction) noexcept {
  if (reduction->op == static_cast<std::uint8_t>(Op::sum))
    reduction->sum = find_exact_sum(static_cast<Type>(reduction->type));
}

}  // namespace tutti
#endif
