// Exact sums of float and double, and of complex numbers of them, in vectors.
//
// double  TwoSum (Knuth) keeps what each addition rounds off, and sums that with TwoSum again, as
//         in the twofold sums of Ogita, Rump and Oishi (2005). Where nothing was rounded off the
//         second time, sum + error is the exact sum, which the last addition rounds. Elsewhere the
//         rest is bounded, and if both ends of the bound round to the same number, that is it.
// float   is summed in double: hardly ever is anything rounded off.
//
// Two operands need none of that. Where neither is certain, the accumulator sums the element. All
// operands are at hand, so nothing is lost by finding out at the end.
#include <algorithm>
#include <cstring>
#include <limits>

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
  /// The sums of one vector, in registers.
  struct Running {
    V sum, error, rest;

    static HWY_INLINE Running of(V left, V right) {
      Running r;
      r.sum = two_sum(left, right, &r.error);
      r.rest = hn::Zero(D());
      return r;
    }
    static HWY_INLINE Running load(const State& s, std::size_t i) {
      const D d;
      return {hn::Load(d, s.sum + i), hn::Load(d, s.error + i), hn::Load(d, s.rest + i)};
    }
    HWY_INLINE void store(State& s, std::size_t i) const {
      const D d;
      hn::Store(sum, d, s.sum + i);
      hn::Store(error, d, s.error + i);
      hn::Store(rest, d, s.rest + i);
    }
    HWY_INLINE void add(V x) {
      V lost, lost_again;
      sum = two_sum(sum, x, &lost);
      error = two_sum(error, lost, &lost_again);
      rest = hn::Add(rest, hn::Abs(lost_again));
    }
  };
  /// The sum is sum + error + something of at most `rest`, but for the roundings of that. Stores
  /// the result, and returns where it is certain.
  static HWY_INLINE M finish(const Running& r, double* out) {
    const D d;
    const V zero = hn::Zero(d);
    // Twice the rest, and more than what the subtraction below may round off.
    const V size = hn::Abs(r.error);
    const V margin = hn::Add(hn::Add(r.rest, r.rest), hn::Mul(size, hn::Set(d, 0x1p-51)));
    const V low = hn::Add(r.sum, hn::Sub(r.error, margin));
    const V high = hn::Add(r.sum, hn::Add(r.error, margin));
    const M exact = hn::Eq(r.rest, zero);
    const M bounded = hn::And(hn::Eq(low, high), hn::Ge(size, hn::Set(d, 0x1p-900)));
    // Without an error the sum has the right sign where it is zero.
    const V result = hn::IfThenElse(hn::Eq(r.error, zero), r.sum, hn::Add(r.sum, r.error));
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
  struct Running {
    V sum, rest;

    static HWY_INLINE Running of(V left, V right) {
      Running r;
      r.sum = two_sum(left, right, &r.rest);
      r.rest = hn::Abs(r.rest);
      return r;
    }
    static HWY_INLINE Running load(const State& s, std::size_t i) {
      const D d;
      return {hn::Load(d, s.sum + i), hn::Load(d, s.rest + i)};
    }
    HWY_INLINE void store(State& s, std::size_t i) const {
      const D d;
      hn::Store(sum, d, s.sum + i);
      hn::Store(rest, d, s.rest + i);
    }
    HWY_INLINE void add(V x) {
      V lost;
      sum = two_sum(sum, x, &lost);
      rest = hn::Add(rest, hn::Abs(lost));
    }
  };
  /// As above, with the errors themselves in the rest.
  static HWY_INLINE M finish(const Running& r, float* out) {
    const D d;
    const V margin = hn::Add(hn::Add(r.rest, r.rest), hn::Mul(hn::Abs(r.sum), hn::Set(d, 0x1p-52)));
    const V low = hn::PromoteTo(d, demote(hn::Sub(r.sum, margin)));
    const V high = hn::PromoteTo(d, demote(hn::Add(r.sum, margin)));
    hn::Store(demote(r.sum), F(), out);
    return hn::Or(hn::Eq(r.rest, hn::Zero(d)), hn::Eq(low, high));
  }

 private:
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
};

/// Elements [first, first + count) of three vectors or more, at most kTile.
template <class Of>
class Tile {
 public:
  using Element = typename Of::Element;
  using Running = typename Of::Running;

  Tile(const Operands& operands, std::size_t first, std::size_t count)
      : operands_(operands), first_(first), count_(count) {}

  void sum_into(unsigned char* out) {
    // Two members at a time: half as often through the memory of the sums.
    add_two(0, [](const State&, std::size_t, V left, V right)
                   HWY_ATTR { return Running::of(left, right); });
    int member = 2;
    for (; member + 1 < operands_.count; member += 2) {
      add_two(member, [](const State& state, std::size_t i, V left, V right) HWY_ATTR {
        Running sums = Running::load(state, i);
        sums.add(left);
        sums.add(right);
        return sums;
      });
    }
    const unsigned char* const last = member < operands_.count ? tile_of(member) : nullptr;
    for (std::size_t i = 0; i < count_; i += kStep) {
      Running sums = Running::load(state_, i);
      if (last != nullptr) sums.add(vector_at(last, i));
      const M certain = Of::finish(sums, result_ + i);
      if (HWY_UNLIKELY(!hn::AllTrue(D(), certain))) accumulate(i, certain);
    }
    std::memcpy(out + first_ * sizeof(Element), result_, count_ * sizeof(Element));
  }

 private:
  const unsigned char* tile_of(int member) const {
    return static_cast<const unsigned char*>(operands_[member]) + first_ * sizeof(Element);
  }
  /// The last one must not read behind the operand.
  HWY_INLINE V vector_at(const unsigned char* tile, std::size_t i) const {
    if (HWY_LIKELY(i + kStep <= count_)) return Of::load(tile + i * sizeof(Element));
    HWY_ALIGN Element padded[kStep] = {};
    std::memcpy(padded, tile + i * sizeof(Element), (count_ - i) * sizeof(Element));
    return Of::load(reinterpret_cast<const unsigned char*>(padded));
  }
  template <class Step>
  HWY_INLINE void add_two(int member, Step step) {
    const unsigned char *const left = tile_of(member), *const right = tile_of(member + 1);
    for (std::size_t i = 0; i < count_; i += kStep)
      step(state_, i, vector_at(left, i), vector_at(right, i)).store(state_, i);
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
  HWY_ALIGN Element result_[kTile];
};

/// Of one or two operands: the processor's own addition rounds the exact sum.
template <class T>
class Few {
 public:
  explicit Few(const Operands& operands)
      : left_(static_cast<const unsigned char*>(operands[0])),
        right_(operands.count == 1 ? nullptr : static_cast<const unsigned char*>(operands[1])) {}

  void sum_into(unsigned char* out, std::size_t count) const {
    const hn::ScalableTag<T> d;
    constexpr std::size_t kLanes = hn::MaxLanes(d);
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) sum_vector(d, i * sizeof(T), out);
    for (; i < count; ++i) sum_vector(hn::CappedTag<T, 1>(), i * sizeof(T), out);
  }

 private:
  template <class Tag>
  HWY_INLINE void sum_vector(Tag d, std::size_t offset, unsigned char* out) const {
    auto sum = PlainLanes<T>::load(d, left_ + offset);
    if (right_ != nullptr) sum = hn::Add(sum, PlainLanes<T>::load(d, right_ + offset));
    const auto nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
    PlainLanes<T>::store(d, hn::IfThenElse(hn::IsNaN(sum), nan, sum), out + offset);
  }

  const unsigned char *left_, *right_;
};

/// `numbers` of each element, which are summed for themselves.
template <class Of, std::size_t numbers>
void sum(const Operands& operands, void* result, std::size_t elements) {
  const FloatEnvironment environment;
  const std::size_t count = elements * numbers;
  auto* const out = static_cast<unsigned char*>(result);
  if (operands.count <= 2) return Few<typename Of::Element>(operands).sum_into(out, count);
  for (std::size_t first = 0; first < count; first += kTile)
    Tile<Of>(operands, first, std::min(kTile, count - first)).sum_into(out);
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
