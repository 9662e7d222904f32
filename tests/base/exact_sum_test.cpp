// Exact sums against long integers: random and adversarial operands, every type, every instruction
// set, any number of operands, and whatever the program has set of its processor.
#include "base/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "base/exact_kernels.hpp"
#include "base/half.hpp"
#include "random_seed.hpp"

namespace tutti {
namespace {

using Generator = std::mt19937_64;

/// An unsigned integer of any length, added to by the rules of school.
class Natural {
 public:
  void add_shifted(std::uint64_t value, int shift) {
    const auto word = static_cast<std::size_t>(shift / 64);
    const int bit = shift % 64;
    add_at(word, value << bit);
    if (bit != 0) add_at(word + 1, value >> (64 - bit));
  }
  bool less_than(const Natural& other) const {
    const std::size_t words = std::max(words_.size(), other.words_.size());
    for (std::size_t i = words; i-- > 0;)
      if (word(i) != other.word(i)) return word(i) < other.word(i);
    return false;
  }
  /// Of what is not larger.
  void subtract(const Natural& other) {
    std::uint64_t borrow = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t before = words_[i];
      words_[i] = before - other.word(i) - borrow;
      borrow = (before < other.word(i) || before - other.word(i) < borrow) ? 1 : 0;
    }
  }
  bool bit(int i) const { return (word(static_cast<std::size_t>(i / 64)) >> (i % 64) & 1) != 0; }
  int highest_bit() const {
    for (std::size_t i = words_.size(); i-- > 0;)
      if (words_[i] != 0) return static_cast<int>(i) * 64 + std::bit_width(words_[i]) - 1;
    return -1;
  }
  bool any_below(int end) const {
    for (int i = 0; i < end; ++i) {
      if (i % 64 == 0 && end - i >= 64 && word(static_cast<std::size_t>(i / 64)) == 0) {
        i += 63;
      } else if (bit(i)) {
        return true;
      }
    }
    return false;
  }

 private:
  std::uint64_t word(std::size_t i) const { return i < words_.size() ? words_[i] : 0; }
  void add_at(std::size_t i, std::uint64_t value) {
    for (; value != 0; ++i) {
      if (words_.size() <= i) words_.resize(i + 1);
      words_[i] += value;
      value = words_[i] < value ? 1 : 0;
    }
  }

  std::vector<std::uint64_t> words_;
};

/// A type as the tests see it: the numbers that it has, and a wider one to name them in.
template <class T>
struct Real {
  using Stored = T;
  using Number = T;
  static constexpr int kDigits = std::numeric_limits<T>::digits;
  static constexpr int kLeast = std::numeric_limits<T>::min_exponent - kDigits;  // of a unit
  static constexpr int kMost = std::numeric_limits<T>::max_exponent;
  static T number(T stored) { return stored; }
  static T stored(T number) { return number; }
};
struct HalfType {
  using Stored = std::uint16_t;
  using Number = float;
  static constexpr int kDigits = 11, kLeast = -24, kMost = 16;
  static float number(std::uint16_t stored) { return half_to_float(stored); }
  static std::uint16_t stored(float number) { return float_to_half(number); }
};
struct BfloatType {
  using Stored = std::uint16_t;
  using Number = float;
  static constexpr int kDigits = 8, kLeast = -133, kMost = 128;
  static float number(std::uint16_t stored) { return bfloat16_to_float(stored); }
  static std::uint16_t stored(float number) { return float_to_bfloat16(number); }
};

/// The sum, rounded once to nearest even.
template <class Of>
typename Of::Number reference(const std::vector<typename Of::Number>& operands) {
  using T = typename Of::Number;
  Natural positive, negative;
  bool nan = false, up = false, down = false, all_minus_zero = true;
  for (const T x : operands) {
    all_minus_zero = all_minus_zero && x == 0 && std::signbit(x);
    if (std::isnan(x)) nan = true;
    if (std::isinf(x)) (x > 0 ? up : down) = true;
    if (!std::isfinite(x) || x == 0) continue;
    int exponent;
    const T fraction = std::frexp(std::abs(x), &exponent);
    auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, Of::kDigits));
    int shift = exponent - Of::kDigits - Of::kLeast;
    for (; shift < 0; ++shift) mantissa >>= 1;  // subnormal: those bits are zero
    (x < 0 ? negative : positive).add_shifted(mantissa, shift);
  }
  if (nan || (up && down)) return std::numeric_limits<T>::quiet_NaN();
  if (up || down) return std::numeric_limits<T>::infinity() * (up ? T{1} : T{-1});
  const bool below = positive.less_than(negative);
  Natural& sum = below ? negative : positive;
  sum.subtract(below ? positive : negative);
  const int top = sum.highest_bit();
  if (top < 0) return all_minus_zero ? -T{0} : T{0};
  const int last = std::max(0, top - Of::kDigits + 1);
  T result = 0;
  for (int i = top; i >= last; --i) result = 2 * result + (sum.bit(i) ? T{1} : T{0});
  const bool odd = sum.bit(last);
  if (last > 0 && sum.bit(last - 1) && (odd || sum.any_below(last - 1))) result += 1;
  int exponent;
  std::frexp(result, &exponent);
  const bool overflows = exponent + last + Of::kLeast > Of::kMost;
  result = overflows ? std::numeric_limits<T>::infinity() : std::ldexp(result, last + Of::kLeast);
  return below ? -result : result;
}

/// Numbers that are hard to sum, or easy; one kind for all operands of an element.
template <class Of>
class Source {
 public:
  using T = typename Of::Number;
  static constexpr int kKinds = 14;

  explicit Source(std::uint64_t seed) : generator_(seed) {}

  std::vector<T> operands(int count, int kind) {
    std::vector<T> all(static_cast<std::size_t>(count));
    center_ = static_cast<int>(below(Of::kMost - Of::kLeast)) + Of::kLeast;
    for (T& x : all) x = Of::number(Of::stored(draw(kind)));
    if (kind >= kKinds - 2) cancel(&all, kind == kKinds - 1);
    std::shuffle(all.begin(), all.end(), generator_);
    return all;
  }
  std::uint64_t below(int n) { return generator_() % static_cast<std::uint64_t>(n); }

 private:
  T sign() { return (generator_() & 1) != 0 ? T{1} : T{-1}; }
  T fraction() {
    return std::ldexp(static_cast<T>(generator_() >> (64 - Of::kDigits)), -Of::kDigits);
  }
  T scaled(T x, int exponent) {
    return std::ldexp(x, std::clamp(exponent, Of::kLeast, Of::kMost - 1));
  }
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
  T draw(int kind) {
    const T most = std::ldexp(T{1} - std::ldexp(T{1}, -Of::kDigits), Of::kMost);
    const T infinity = std::numeric_limits<T>::infinity();
    switch (kind) {
      case 0:  // as in a book
        return sign() * fraction();
      case 1:  // all exponents
      case 12:
        return sign() * scaled(T{1} + fraction(),
                               static_cast<int>(below(Of::kMost - Of::kLeast)) + Of::kLeast);
      case 2:  // exponents that are so far apart that roundings matter
      case 13:
        return sign() *
               scaled(T{1} + fraction(), center_ + static_cast<int>(below(2 * Of::kDigits + 4)));
      case 3:  // ties, and what breaks them
        return sign() * scaled(T{1}, center_ + one_of_int({0, 0, -1, -Of::kDigits, -Of::kDigits - 1,
                                                           -2 * Of::kDigits, -3 * Of::kDigits}));
      case 4:  // subnormals
        return sign() * scaled(static_cast<T>(below(1 << (Of::kDigits > 16 ? 16 : Of::kDigits))),
                               Of::kLeast);
      case 5:  // overflow on the way
        return sign() * most * one_of({T{1}, T{1}, T{0.5}, std::ldexp(T{1}, -Of::kDigits)});
      case 6:
        return sign() * T{0};
      case 7:
        return -T{0};
      case 8:  // whole numbers
        return sign() * static_cast<T>(below(1000));
      case 9:
        return one_of({infinity, T{1}, most});
      case 10:
        return one_of({infinity, -infinity, T{1}, -most});
      case 11:
        return one_of({std::numeric_limits<T>::quiet_NaN(), T{1}, -T{0}, infinity});
      default:
        return 0;
    }
  }
  int one_of_int(std::initializer_list<int> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
  /// Pairs cancel; with `rest` something is left over.
  void cancel(std::vector<T>* all, bool rest) {
    for (std::size_t i = rest ? 1 : 0; i + 1 < all->size(); i += 2) (*all)[i + 1] = -(*all)[i];
  }

  Generator generator_;
  int center_ = 0;
};

/// The vectors of all members, one of which may be the result's.
template <class Stored>
struct Vectors {
  Vectors(int count, std::size_t elements)
      : vectors(static_cast<std::size_t>(count), std::vector<Stored>(elements)) {}
  Operands operands() const {
    return {
        [](const void* self, int member) {
          return static_cast<const void*>(
              static_cast<const Vectors*>(self)->vectors[static_cast<std::size_t>(member)].data());
        },
        this, static_cast<int>(vectors.size())};
  }
  std::vector<std::vector<Stored>> vectors;
};

/// The bytes that are the number; padding is none.
template <class Stored>
std::string bits(Stored x) {
  const std::size_t bytes =
      std::is_same_v<Stored, long double> && std::numeric_limits<long double>::digits == 64
          ? 10
          : sizeof x;
  std::string text(bytes, '\0');
  std::memcpy(text.data(), &x, bytes);
  return text;
}

constexpr int kCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64};

/// `wanted` elements, of which each has its own operands.
template <class Of>
void campaign(SumFunction sum, std::size_t wanted, std::uint64_t stream) {
  using Stored = typename Of::Stored;
  Source<Of> source(testing::random_seed(stream));
  for (std::size_t done = 0; done < wanted;) {
    const std::size_t elements = 1 + source.below(300);
    const int count =
        kCounts[source.below(6) == 0 ? source.below(std::size(kCounts)) : source.below(7)];
    Vectors<Stored> vectors(count, elements);
    std::vector<Stored> expected(elements), result(elements);
    const bool one_kind = source.below(2) == 0;
    const auto kind = static_cast<int>(source.below(Source<Of>::kKinds));
    for (std::size_t i = 0; i < elements; ++i) {
      const auto all = source.operands(
          count, one_kind ? kind : static_cast<int>(source.below(Source<Of>::kKinds)));
      for (std::size_t m = 0; m < all.size(); ++m) vectors.vectors[m][i] = Of::stored(all[m]);
      const auto rounded = reference<Of>(all);
      // A NaN is the one with a clear sign and no payload.
      expected[i] = Of::stored(
          std::isnan(rounded) ? std::numeric_limits<typename Of::Number>::quiet_NaN() : rounded);
    }
    const Operands operands = vectors.operands();
    sum(operands, result.data(), elements);
    for (std::size_t i = 0; i < elements; ++i)
      ASSERT_EQ(bits(result[i]), bits(expected[i]))
          << count << " operands, element " << i << " of " << elements << ": " << +result[i]
          << ", not " << +expected[i];
    // In place, where any of them lies.
    auto& own = vectors.vectors[source.below(count)];
    sum(operands, own.data(), elements);
    for (std::size_t i = 0; i < elements; ++i) ASSERT_EQ(bits(own[i]), bits(expected[i]));
    done += elements;
  }
}

class ExactSum : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > widest_isa()) GTEST_SKIP() << "this processor has no " << name(GetParam());
  }
};

constexpr std::size_t kMany = 300000;  // for each type and instruction set: a million in all

TEST_P(ExactSum, OfDouble) {
  campaign<Real<double>>(find_exact_vector_sum(Type::f64, GetParam()), kMany, 1);
}

TEST_P(ExactSum, OfFloat) {
  campaign<Real<float>>(find_exact_vector_sum(Type::f32, GetParam()), kMany, 2);
}

INSTANTIATE_TEST_SUITE_P(All, ExactSum, ::testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& isa) {
                           std::string text = name(isa.param);
                           std::erase(text, '-');
                           return text;
                         });

TEST(ExactScalarSum, OfHalfPrecision) { campaign<HalfType>(find_exact_sum(Type::f16), kMany, 3); }

TEST(ExactScalarSum, OfBfloat16) { campaign<BfloatType>(find_exact_sum(Type::bf16), kMany, 4); }

TEST(ExactScalarSum, OfLongDouble) {
  if constexpr (std::numeric_limits<long double>::digits <= 64)
    campaign<Real<long double>>(find_exact_sum(Type::long_double), 30000, 5);
  else
    GTEST_SKIP() << "the reference has 64 digits";
}

TEST(ExactScalarSum, ByAccumulatorsAlone) {
  campaign<Real<double>>(find_accumulated_sum(Type::f64), 100000, 6);
  campaign<Real<float>>(find_accumulated_sum(Type::f32), 100000, 7);
}

/// Of complex numbers each part is a sum for itself.
TEST(ExactComplexSum, HasTwoParts) {
  Vectors<double> vectors(3, 2);
  vectors.vectors = {{1, 0x1p-60}, {0x1p-53, 1e300}, {0x1p-80, -1e300}};
  double result[2];
  find_exact_sum(Type::c64)(vectors.operands(), result, 1);
  EXPECT_EQ(result[0], 1 + 0x1p-52);
  EXPECT_EQ(result[1], 0x1p-60);
}

#if defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 Quad;

/// Sums that quadruple precision rounds: a tie, and one that is broken far below.
TEST(ExactScalarSum, OfQuadruplePrecision) {
  const auto power = [](int exponent) {
    Quad x = 1;
    for (; exponent < 0; ++exponent) x /= 2;
    for (; exponent > 0; --exponent) x *= 2;
    return x;
  };
  Vectors<Quad> vectors(4, 2);
  vectors.vectors = {{power(0), power(0)},
                     {power(-113), power(-113)},
                     {power(16000), power(16000)},
                     {-power(16000), -power(16000)}};
  vectors.vectors.push_back({Quad{0}, power(-16400)});
  Quad result[2];
  find_exact_sum(Type::f128)(vectors.operands(), result, 2);
  EXPECT_TRUE(result[0] == power(0));
  EXPECT_TRUE(result[1] == power(0) + power(-112));
}
#endif

/// Programs built with -ffast-math flush subnormals to zero, others round differently or trap.
TEST(ExactSumSettings, DoNotChangeTheBits) {
  const double least = std::numeric_limits<double>::denorm_min();
  Vectors<double> vectors(3, 3);
  vectors.vectors = {{least, 1, 0x1.fffffffffffffp1023},
                     {least, 0x1p-53, 0x1p1023},
                     {-4 * least, 0x1p-54, -0x1p1023}};
  double expected[3] = {-2 * least, 1 + 0x1p-52, 0x1.fffffffffffffp1023};
  double result[3];
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
#if defined(__SSE2__)
    const unsigned before = _mm_getcsr();
    const unsigned mine = (before & ~_MM_MASK_MASK) | 0x8040;  // flushes and traps
    _mm_setcsr(mine);
    find_exact_sum(Type::f64)(vectors.operands(), result, 3);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after, mine);
#else
    find_exact_sum(Type::f64)(vectors.operands(), result, 3);
#endif
    EXPECT_EQ(std::fegetround(), rounding);
    std::fesetround(FE_TONEAREST);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(bits(result[i]), bits(expected[i])) << i;
  }
}

TEST(ExactReduction, IsOfSumsOfFloatingPointNumbersOnly) {
  for (int op = 0; op <= static_cast<int>(Op::no_op); ++op) {
    for (int type = 0; type < static_cast<int>(Type::count_); ++type) {
      Reduction reduction;
      if (!find_reduction(static_cast<Op>(op), static_cast<Type>(type), &reduction)) continue;
      EXPECT_EQ(reduction.sum, nullptr);
      make_exact(&reduction);
      const bool floating = find_accumulated_sum(static_cast<Type>(type)) != nullptr;
      EXPECT_EQ(reduction.sum != nullptr, floating && static_cast<Op>(op) == Op::sum)
          << name(static_cast<Op>(op)) << " " << name(static_cast<Type>(type));
    }
  }
  Reduction of_the_host;
  make_exact(&of_the_host);
  EXPECT_EQ(of_the_host.sum, nullptr);
}

}  // namespace
}  // namespace tutti
