#include "oracle.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace tutti::oracle {
namespace {

#if defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 Quad;
#else
using Quad = long double;
#endif
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;

template <class T>
T get(const void* from, std::size_t offset = 0) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + offset, sizeof value);
  return value;
}

template <class T>
void put(T value, void* to, std::size_t offset = 0) {
  std::memcpy(static_cast<char*>(to) + offset, &value, sizeof value);
}

// ---- integers --------------------------------------------------------------------------------

struct Whole {
  std::size_t bytes;
  bool has_sign;
};

/// Zero bytes: not an integer, logical or byte type.
Whole whole(Type type) {
  switch (type) {
    case Type::i8:
      return {1, true};
    case Type::i16:
      return {2, true};
    case Type::i32:
      return {4, true};
    case Type::i64:
      return {8, true};
    case Type::u8:
    case Type::bool8:
    case Type::logical8:
    case Type::byte:
      return {1, false};
    case Type::u16:
    case Type::logical16:
      return {2, false};
    case Type::u32:
    case Type::bool32:
      return {4, false};
    case Type::u64:
    case Type::logical64:
      return {8, false};
    default:
      return {0, false};
  }
}

Wide decode(Whole form, const void* from) {
  Wide value = 0;
  for (std::size_t i = form.bytes; i-- > 0;) value = value * 256 + get<std::uint8_t>(from, i);
  const Wide range = Wide{1} << (8 * form.bytes);
  return form.has_sign && value >= range / 2 ? value - range : value;
}

void encode(Whole form, Wide value, void* to) {
  for (std::size_t i = 0; i < form.bytes; ++i) {
    const int digit = static_cast<int>((value % 256 + 256) % 256);
    put(static_cast<std::uint8_t>(digit), to, i);
    value = (value - digit) / 256;  // exact, also below zero
  }
}

/// Product modulo 2^64 and more: by long multiplication of halves, for 128 bits do not hold all.
Wide product(Wide a, Wide b) {
  const Wide half = Wide{1} << 32;
  const auto mod = [&](Wide value, Wide by) { return ((value % by) + by) % by; };
  const Wide a_low = mod(a, half), a_high = mod(a / half - (a < 0 && a % half != 0), half);
  const Wide b_low = mod(b, half), b_high = mod(b / half - (b < 0 && b % half != 0), half);
  const Wide cross = mod(mod(a_low * b_high, half) + mod(a_high * b_low, half), half);
  const Wide low =
      static_cast<Wide>(static_cast<WideUnsigned>(a_low) * static_cast<WideUnsigned>(b_low));
  return low + cross * half;
}

template <class Rule>
Wide bit_by_bit(Whole form, const void* left, const void* right, Rule&& rule) {
  Wide value = 0;
  for (std::size_t bit = 8 * form.bytes; bit-- > 0;) {
    const int a = get<std::uint8_t>(left, bit / 8) >> (bit % 8) & 1;
    const int b = get<std::uint8_t>(right, bit / 8) >> (bit % 8) & 1;
    value = value * 2 + (rule(a + b) ? 1 : 0);
  }
  return value;
}

void combine_whole(Op op, Whole form, const void* left, const void* right, void* out) {
  const Wide a = decode(form, left), b = decode(form, right);
  const int trues = (a != 0 ? 1 : 0) + (b != 0 ? 1 : 0);
  switch (op) {
    case Op::sum:
      return encode(form, a + b, out);
    case Op::prod:
      return encode(form, product(a, b), out);
    case Op::min:
      return encode(form, std::min(a, b), out);
    case Op::max:
      return encode(form, std::max(a, b), out);
    case Op::land:
      return encode(form, trues == 2, out);
    case Op::lor:
      return encode(form, trues != 0, out);
    case Op::lxor:
      return encode(form, trues == 1, out);
    case Op::band:
      return encode(form, bit_by_bit(form, left, right, [](int n) { return n == 2; }), out);
    case Op::bor:
      return encode(form, bit_by_bit(form, left, right, [](int n) { return n != 0; }), out);
    case Op::bxor:
      return encode(form, bit_by_bit(form, left, right, [](int n) { return n == 1; }), out);
    default:
      std::abort();
  }
}

// ---- half precision ----------------------------------------------------------------------------

/// A binary float of 16 bits: everything that it can represent.
class SmallFloat {
 public:
  explicit SmallFloat(int exponent_bits) : fraction_bits_(15 - exponent_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int specials = (1 << exponent_bits) - 1;
    for (int magnitude = 0; magnitude < specials << fraction_bits_; ++magnitude) {
      const int exponent = magnitude >> fraction_bits_;
      const int fraction = magnitude & ((1 << fraction_bits_) - 1);
      const int digits = exponent == 0 ? fraction : fraction + (1 << fraction_bits_);
      finite_.push_back(std::ldexp(digits, std::max(exponent, 1) - bias - fraction_bits_));
    }
    // Where the next value would be: from half way to it on, rounding gives infinity.
    finite_.push_back(2 * finite_.back() - finite_[finite_.size() - 2]);
  }

  double decode(std::uint16_t bits) const {
    const std::size_t magnitude = bits & 0x7fff, infinity = finite_.size() - 1;
    const double value = magnitude < infinity    ? finite_[magnitude]
                         : magnitude == infinity ? std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN();
    return std::copysign(value, bits & 0x8000 ? -1.0 : 1.0);
  }

  /// The nearest, of two equally near the one with an even last digit.
  std::uint16_t encode(double value) const {
    const std::size_t infinity = finite_.size() - 1;
    const double magnitude = std::fabs(value);
    std::size_t bits;
    if (std::isnan(value)) {
      bits = 0x7fff;
    } else if (magnitude >= finite_[infinity]) {
      bits = infinity;
    } else {
      const auto above = std::upper_bound(finite_.begin(), finite_.end(), magnitude);
      bits = static_cast<std::size_t>(above - finite_.begin()) - 1;
      const double down = magnitude - finite_[bits], up = finite_[bits + 1] - magnitude;
      if (up < down || (up == down && bits % 2 == 1)) ++bits;
    }
    return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }

 private:
  int fraction_bits_;
  std::vector<double> finite_;  // by bit pattern
};

const SmallFloat& small_float(Type type) {
  static const SmallFloat half(5), bfloat16(8);
  return type == Type::f16 ? half : bfloat16;
}

// ---- floats ------------------------------------------------------------------------------------

/// A type so much wider that rounding sums and products of T to it first does not show.
template <class T>
struct Wider;
template <>
struct Wider<float> {
  using type = double;
};
template <>
struct Wider<double> {
  using type = Quad;
};
template <>
struct Wider<long double> {
  using type = Quad;
};
template <>
struct Wider<Quad> {  // there is none: the arithmetic itself is the compiler's
  using type = Quad;
};

/// Quad is too narrow for this one: multiplies the 64 digits as integers and rounds by hand.
long double rounded_product(long double a, long double b) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a * b;
  int a_exponent = 0, b_exponent = 0;
  const auto digits = [](long double x, int* exponent) {
    return static_cast<std::uint64_t>(std::ldexp(std::fabs(std::frexp(x, exponent)), 64));
  };
  const auto a_digits = digits(a, &a_exponent), b_digits = digits(b, &b_exponent);
  const WideUnsigned product = WideUnsigned{a_digits} * b_digits;
  int shift = 0;  // so that 64 digits remain: the product has 127 or 128
  while (product >> shift >> 64 != 0) ++shift;
  const WideUnsigned rest = product & ((WideUnsigned{1} << shift) - 1);
  const WideUnsigned half = WideUnsigned{1} << (shift - 1);
  const auto kept = static_cast<std::uint64_t>(product >> shift);
  const bool up = rest > half || (rest == half && kept % 2 == 1);
  const long double magnitude = static_cast<long double>(kept) + (up ? 1.0L : 0.0L);
  const long double result = std::ldexp(magnitude, shift - 128 + a_exponent + b_exponent);
  return std::signbit(a) != std::signbit(b) ? -result : result;
}

/// Quad is too narrow for this, too: rounds to it "to odd", so that no tie arises that was none.
long double rounded_sum(long double a, long double b) {
  const Quad sum = static_cast<Quad>(a) + static_cast<Quad>(b);
  const Quad part = sum - a;
  const Quad error = (a - (sum - part)) + (b - part);  // exact, or NaN
  if (!(error > 0) && !(error < 0)) return static_cast<long double>(sum);
  auto bits = get<WideUnsigned>(&sum);
  if ((error > 0) != (sum > 0)) bits -= 1;  // was rounded away from zero
  bits |= 1;
  return static_cast<long double>(get<Quad>(&bits));
}

template <class T>
T rounded(Op op, T a, T b) {
  if constexpr (std::is_same_v<T, long double> && std::numeric_limits<T>::digits == 64) {
    return op == Op::prod ? rounded_product(a, b) : rounded_sum(a, b);
  }
  using W = typename Wider<T>::type;
  const W wide = op == Op::prod ? static_cast<W>(a) * static_cast<W>(b)
                                : static_cast<W>(a) + static_cast<W>(b);
  return static_cast<T>(wide);
}

/// Which operand min or max takes: right only where it is strictly better.
template <class T>
bool takes_right(Op op, T a, T b) {
  return op == Op::min ? b < a : b > a;
}

template <class T>
void combine_float(Op op, const void* left, const void* right, void* out) {
  const T a = get<T>(left), b = get<T>(right);
  if (op == Op::sum || op == Op::prod) return put(rounded(op, a, b), out);
  put(takes_right(op, a, b) ? b : a, out);
}

void combine_small(Op op, Type type, const void* left, const void* right, void* out) {
  const SmallFloat& form = small_float(type);
  const auto left_bits = get<std::uint16_t>(left), right_bits = get<std::uint16_t>(right);
  const double a = form.decode(left_bits), b = form.decode(right_bits);
  if (op == Op::sum) return put(form.encode(a + b), out);
  if (op == Op::prod) return put(form.encode(a * b), out);
  put(takes_right(op, a, b) ? right_bits : left_bits, out);
}

// ---- complex -----------------------------------------------------------------------------------

/// The product as Annex G of C wants it: an infinite factor, or an infinite partial product, gives
/// an infinity even where the plain formula gives NaN in both parts.
template <class T>
std::complex<T> complex_product(std::complex<T> a, std::complex<T> b) {
  const auto times = [](T x, T y) { return rounded(Op::prod, x, y); };
  const auto plain = [&](std::complex<T> x, std::complex<T> y) {
    return std::complex<T>(rounded(Op::sum, times(x.real(), y.real()), -times(x.imag(), y.imag())),
                           rounded(Op::sum, times(x.real(), y.imag()), times(x.imag(), y.real())));
  };
  const auto result = plain(a, b);
  if (!std::isnan(result.real()) || !std::isnan(result.imag())) return result;

  const auto infinite = [](std::complex<T> z) {
    return std::isinf(z.real()) || std::isinf(z.imag());
  };
  const auto without_nan = [](std::complex<T> z) {
    const auto part = [](T x) { return std::isnan(x) ? std::copysign(T{0}, x) : x; };
    return std::complex<T>(part(z.real()), part(z.imag()));
  };
  const auto boxed = [](std::complex<T> z) {  // the direction in which z is infinite
    const auto part = [](T x) { return std::copysign(std::isinf(x) ? T{1} : T{0}, x); };
    return std::complex<T>(part(z.real()), part(z.imag()));
  };
  const bool partial =
      std::isinf(times(a.real(), b.real())) || std::isinf(times(a.imag(), b.imag())) ||
      std::isinf(times(a.real(), b.imag())) || std::isinf(times(a.imag(), b.real()));
  if (!infinite(a) && !infinite(b) && !partial) return result;
  if (infinite(a) || infinite(b)) {
    a = infinite(a) ? boxed(a) : a;
    b = infinite(b) ? boxed(b) : b;
  }
  const auto direction = plain(without_nan(a), without_nan(b));
  const T infinity = std::numeric_limits<T>::infinity();
  return {times(infinity, direction.real()), times(infinity, direction.imag())};
}

template <class T>
void combine_complex(Op op, const void* left, const void* right, void* out) {
  const std::complex<T> a(get<T>(left), get<T>(left, sizeof(T)));
  const std::complex<T> b(get<T>(right), get<T>(right, sizeof(T)));
  const auto result = op == Op::prod ? complex_product(a, b)
                                     : std::complex<T>(rounded(Op::sum, a.real(), b.real()),
                                                       rounded(Op::sum, a.imag(), b.imag()));
  put(result.real(), out);
  put(result.imag(), out, sizeof(T));
}

// ---- pairs -------------------------------------------------------------------------------------

/// Where the index is: behind the value, at its own alignment, as in a C struct.
template <class V, class I>
constexpr std::size_t kIndexOffset = (sizeof(V) + alignof(I) - 1) / alignof(I) * alignof(I);

template <class V, class I>
void combine_pair(Op op, const void* left, const void* right, void* out) {
  constexpr std::size_t kIndex = kIndexOffset<V, I>;
  const V a = get<V>(left), b = get<V>(right);
  const I i = get<I>(left, kIndex), j = get<I>(right, kIndex);
  const bool left_wins = op == Op::minloc ? a < b : a > b;
  put(left_wins ? a : b, out);
  put(left_wins ? i : (a == b ? std::min(i, j) : j), out, kIndex);
}

// ---- random values -----------------------------------------------------------------------------

template <class T>
T random_float(bool ordinary, Random& random) {
  using Limits = std::numeric_limits<double>;
  const double tiny = sizeof(T) == 4 ? 1e-40 : Limits::denorm_min();
  const double huge = sizeof(T) == 4 ? 3e38 : Limits::max();
  const double specials[] = {0.0,  -0.0, 1.0,   -1.0,  Limits::infinity(), -Limits::infinity(),
                             tiny, huge, -tiny, -huge, Limits::quiet_NaN()};
  if (!ordinary && random() % 3 == 0) return static_cast<T>(specials[random() % 11]);
  const int exponent = static_cast<int>(random() % 41) - 20;
  const auto digits = static_cast<std::int64_t>(random());
  // All digits of T, also where it has more than a double.
  const T value = static_cast<T>(digits) + static_cast<T>(random() % 4096) / static_cast<T>(4096);
  return value * static_cast<T>(std::ldexp(1.0, exponent - 63));
}

std::uint64_t random_bits(bool ordinary, Random& random) {
  if (ordinary) return random() % 100;
  switch (random() % 4) {
    case 0:
      return random();
    case 1:
      return random() % 3 - 1;
    case 2:
      return std::uint64_t{0x8080808080808080} >> (random() % 2);  // the extremes of every width
    default:
      return random() % 2 * (random() % 256);
  }
}

template <class V, class I>
void random_pair(bool ordinary, Random& random, void* to) {
  V value = static_cast<V>(static_cast<int>(random() % 4) - 2);  // so that ties are frequent
  if constexpr (!std::is_integral_v<V>) {
    if (!ordinary && random() % 4 == 0) value = random_float<V>(false, random);
  }
  put(value, to);
  put(static_cast<I>(static_cast<int>(random() % 7) - 3), to, kIndexOffset<V, I>);
}

/// Calls function.operator()<V, I>() for a pair type; false for others.
template <class Function>
bool with_pair(Type type, Function&& function) {
  switch (type) {
    case Type::pair_f32_i32:
      return function.template operator()<float, std::int32_t>(), true;
    case Type::pair_f64_i32:
      return function.template operator()<double, std::int32_t>(), true;
    case Type::pair_i64_i32:
      return function.template operator()<std::int64_t, std::int32_t>(), true;
    case Type::pair_i16_i32:
      return function.template operator()<std::int16_t, std::int32_t>(), true;
    case Type::pair_i32_i32:
      return function.template operator()<std::int32_t, std::int32_t>(), true;
    case Type::pair_long_double_i32:
      return function.template operator()<long double, std::int32_t>(), true;
    case Type::pair_f32_f32:
      return function.template operator()<float, float>(), true;
    case Type::pair_f64_f64:
      return function.template operator()<double, double>(), true;
    default:
      return false;
  }
}

// ---- comparison --------------------------------------------------------------------------------

constexpr std::size_t kLongDoubleBytes = std::numeric_limits<long double>::digits == 64 ? 10 : 16;

template <class T>
bool same_float(const void* a, const void* b, std::size_t offset = 0) {
  const T x = get<T>(a, offset), y = get<T>(b, offset);
  if (x != x || y != y) return x != x && y != y;
  const std::size_t bytes = std::is_same_v<T, long double> ? kLongDoubleBytes : sizeof(T);
  return std::memcmp(static_cast<const char*>(a) + offset, static_cast<const char*>(b) + offset,
                     bytes) == 0;
}

template <class T>
bool same_value(const void* a, const void* b, std::size_t offset = 0) {
  if constexpr (std::is_integral_v<T>) return get<T>(a, offset) == get<T>(b, offset);
  return same_float<T>(a, b, offset);
}

bool same_small(Type type, const void* a, const void* b) {
  const auto x = get<std::uint16_t>(a), y = get<std::uint16_t>(b);
  const SmallFloat& form = small_float(type);
  return x == y || (std::isnan(form.decode(x)) && std::isnan(form.decode(y)));
}

}  // namespace

bool defined(Op op, Type type) {
  using Ops = std::set<Op>;
  static const Ops arithmetic = {Op::sum, Op::prod, Op::min, Op::max};
  static const Ops logical = {Op::land, Op::lor, Op::lxor};
  static const Ops bitwise = {Op::band, Op::bor, Op::bxor};
  static const Ops complex = {Op::sum, Op::prod};
  static const Ops location = {Op::minloc, Op::maxloc};
  switch (type) {
    case Type::i8:
    case Type::i16:
    case Type::i32:
    case Type::i64:
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
      return arithmetic.contains(op) || logical.contains(op) || bitwise.contains(op);
    case Type::f16:
    case Type::bf16:
    case Type::f32:
    case Type::f64:
    case Type::long_double:
    case Type::f128:
      return arithmetic.contains(op);
    case Type::c32:
    case Type::c64:
    case Type::c_long_double:
      return complex.contains(op);
    case Type::bool8:
    case Type::bool32:
    case Type::logical8:
    case Type::logical16:
    case Type::logical64:
      return logical.contains(op);
    case Type::byte:
      return bitwise.contains(op);
    default:
      return location.contains(op);
  }
}

void random_element(Type type, bool ordinary, Random& random, void* to) {
  if (const Whole form = whole(type); form.bytes != 0) {
    const std::uint64_t bits = random_bits(ordinary, random);
    std::memcpy(to, &bits, form.bytes);  // little-endian, or any other bytes
    return;
  }
  const auto both = [&]<class T>() {
    put(random_float<T>(ordinary, random), to);
    put(random_float<T>(ordinary, random), to, sizeof(T));
  };
  switch (type) {
    case Type::f16:
    case Type::bf16:
      if (ordinary) return put(small_float(type).encode(random_float<double>(true, random)), to);
      return put(static_cast<std::uint16_t>(random()), to);
    case Type::f32:
      return put(random_float<float>(ordinary, random), to);
    case Type::f64:
      return put(random_float<double>(ordinary, random), to);
    case Type::long_double:
      return put(random_float<long double>(ordinary, random), to);
    case Type::f128:
      return put(random_float<Quad>(ordinary, random), to);
    case Type::c32:
      return both.template operator()<float>();
    case Type::c64:
      return both.template operator()<double>();
    case Type::c_long_double:
      return both.template operator()<long double>();
    default:
      with_pair(type, [&]<class V, class I>() { random_pair<V, I>(ordinary, random, to); });
  }
}

void combine(Op op, Type type, const void* left, const void* right, void* out) {
  if (const Whole form = whole(type); form.bytes != 0) {
    return combine_whole(op, form, left, right, out);
  }
  switch (type) {
    case Type::f16:
    case Type::bf16:
      return combine_small(op, type, left, right, out);
    case Type::f32:
      return combine_float<float>(op, left, right, out);
    case Type::f64:
      return combine_float<double>(op, left, right, out);
    case Type::long_double:
      return combine_float<long double>(op, left, right, out);
    case Type::f128:
      return combine_float<Quad>(op, left, right, out);
    case Type::c32:
      return combine_complex<float>(op, left, right, out);
    case Type::c64:
      return combine_complex<double>(op, left, right, out);
    case Type::c_long_double:
      return combine_complex<long double>(op, left, right, out);
    default:
      with_pair(type, [&]<class V, class I>() { combine_pair<V, I>(op, left, right, out); });
  }
}

bool same(Type type, const void* a, const void* b) {
  if (const Whole form = whole(type); form.bytes != 0) {
    return std::memcmp(a, b, form.bytes) == 0;
  }
  const auto both = [&]<class T>() {
    return same_float<T>(a, b) && same_float<T>(a, b, sizeof(T));
  };
  switch (type) {
    case Type::f16:
    case Type::bf16:
      return same_small(type, a, b);
    case Type::f32:
      return same_float<float>(a, b);
    case Type::f64:
      return same_float<double>(a, b);
    case Type::long_double:
      return same_float<long double>(a, b);
    case Type::f128:
      return same_float<Quad>(a, b);
    case Type::c32:
      return both.template operator()<float>();
    case Type::c64:
      return both.template operator()<double>();
    case Type::c_long_double:
      return both.template operator()<long double>();
    default:
      bool equal = false;
      with_pair(type, [&]<class V, class I>() {
        equal = same_value<V>(a, b) && same_value<I>(a, b, kIndexOffset<V, I>);
      });
      return equal;
  }
}

bool has_nan(Type type, const void* element) {
  const auto is_nan = [&]<class T>(std::type_identity<T>, std::size_t part = 0) {
    const T value = get<T>(element, part * sizeof(T));
    return value != value;
  };
  const auto either = [&](auto real) { return is_nan(real) || is_nan(real, 1); };
  switch (type) {
    case Type::f16:
    case Type::bf16:
      return std::isnan(small_float(type).decode(get<std::uint16_t>(element)));
    case Type::f32:
      return is_nan(std::type_identity<float>{});
    case Type::f64:
      return is_nan(std::type_identity<double>{});
    case Type::long_double:
      return is_nan(std::type_identity<long double>{});
    case Type::f128:
      return is_nan(std::type_identity<Quad>{});
    case Type::c32:
      return either(std::type_identity<float>{});
    case Type::c64:
      return either(std::type_identity<double>{});
    case Type::c_long_double:
      return either(std::type_identity<long double>{});
    default:
      bool nan = false;
      with_pair(type, [&]<class V, class I>() { nan = is_nan(std::type_identity<V>{}); });
      return nan;
  }
}

}  // namespace tutti::oracle
