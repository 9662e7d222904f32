// Exact sums of what has no vectors: half precision and bfloat16, long double, quadruple precision.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/exact_element.hpp"
#include "base/exact_kernels.hpp"
#include "base/float_environment.hpp"
#include "base/half.hpp"

namespace tutti {
namespace {

using exact::Parts;

#if LDBL_MANT_DIG == 64
using LongDouble = exact::Extended;
#elif LDBL_MANT_DIG == 113
using LongDouble = exact::Quad;
#else
using LongDouble = exact::Double;
#endif

/// Element `index` of a member's vector.
template <class Format>
const unsigned char* element(const Operands& operands, int member, std::size_t index) noexcept {
  return static_cast<const unsigned char*>(operands[member]) + index * Format::kBytes;
}

/// The sum of an element of all operands where a register holds it; false where the accumulator has
/// to. Zero has a sign, so it is left to that, too.
///
/// Half precision: a number has 2^40 units at most.
bool sum_in_register(exact::Half, const Operands& operands, std::size_t index,
                     Parts* out) noexcept {
  constexpr int kMostMembers = 1 << 22;
  if (operands.count > kMostMembers) return false;
  std::int64_t sum = 0;
  for (int member = 0; member < operands.count; ++member) {
    const Parts x = exact::Half::load(element<exact::Half>(operands, member, index));
    if (x.kind != exact::Kind::finite) return false;
    const auto units = static_cast<std::int64_t>(x.mantissa) << x.position;
    sum += x.negative ? -units : units;
  }
  if (sum == 0) return false;
  const auto size = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  *out = exact::rounded<exact::Half>(sum < 0, size, 0);
  return true;
}

/// bfloat16: double has digits enough unless exponents are far apart.
bool sum_in_register(exact::Bfloat16, const Operands& operands, std::size_t index,
                     Parts* out) noexcept {
  double sum = 0;
  for (int member = 0; member < operands.count; ++member) {
    std::uint16_t bits;
    std::memcpy(&bits, element<exact::Bfloat16>(operands, member, index), sizeof bits);
    const double x = bfloat16_to_float(bits);
    const double next = sum + x, shadow = next - sum;
    if ((sum - (next - shadow)) + (x - shadow) != 0) return false;
    sum = next;
  }
  if (sum == 0 || !std::isfinite(sum)) return false;
  const Parts exact_sum = exact::Double::load(&sum);
  constexpr int kUnits = 1074 - 133;  // the smallest subnormals are so many powers of two apart
  *out = exact::rounded<exact::Bfloat16>(exact_sum.negative,
                                         static_cast<std::uint64_t>(exact_sum.mantissa),
                                         static_cast<int>(exact_sum.position) - kUnits);
  return true;
}

/// A SumFunction.
template <class Format>
void sum_short(const Operands& operands, void* out, std::size_t elements) {
  const FloatEnvironment environment;
  for (std::size_t i = 0; i < elements; ++i) {
    auto* const to = static_cast<unsigned char*>(out) + i * Format::kBytes;
    Parts sum;
    if (sum_in_register(Format{}, operands, i, &sum)) {
      Format::store(sum, to);
    } else {
      exact::sum_element<Format>(operands, i, to);
    }
  }
}

}  // namespace

SumFunction find_exact_scalar_sum(Type type) noexcept {
  if (type == Type::f16) return &sum_short<exact::Half>;
  if (type == Type::bf16) return &sum_short<exact::Bfloat16>;
  return find_accumulated_sum(type);
}

SumFunction find_accumulated_sum(Type type) noexcept {
  switch (type) {
    case Type::f16:
      return &exact::accumulate<exact::Half, 1>;
    case Type::bf16:
      return &exact::accumulate<exact::Bfloat16, 1>;
    case Type::f32:
      return &exact::accumulate<exact::Single, 1>;
    case Type::f64:
      return &exact::accumulate<exact::Double, 1>;
    case Type::c32:
      return &exact::accumulate<exact::Single, 2>;
    case Type::c64:
      return &exact::accumulate<exact::Double, 2>;
    case Type::long_double:
      return &exact::accumulate<LongDouble, 1>;
    case Type::f128:
      return &exact::accumulate<exact::Quad, 1>;
    case Type::c_long_double:
      return &exact::accumulate<LongDouble, 2>;
    default:
      return nullptr;
  }
}

}  // namespace tutti
