// Every kernel of every instruction set that this machine has, against the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/reduction_kernels.hpp"
#include "oracle.hpp"
#include "random_seed.hpp"

namespace tutti {
namespace {

using oracle::Random;

constexpr Op kOps[] = {Op::sum,    Op::prod,   Op::min,     Op::max,  Op::land,
                       Op::lor,    Op::lxor,   Op::band,    Op::bor,  Op::bxor,
                       Op::minloc, Op::maxloc, Op::replace, Op::no_op};
constexpr Isa kAllIsas[] = {Isa::baseline, Isa::avx2, Isa::avx512};
constexpr std::size_t kGuard = 64;  // bytes around a buffer that must stay as they are

std::vector<Type> all_types() {
  std::vector<Type> types;
  for (int i = 0; i < static_cast<int>(Type::count_); ++i) types.push_back(static_cast<Type>(i));
  return types;
}

struct Case {
  Isa isa;
  Op op;
  Type type;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Isa isa : kAllIsas) {
    if (isa > widest_isa()) continue;  // InstructionSets.AllAreTested says so
    for (const Type type : all_types()) {
      for (const Op op : kOps) {
        if (oracle::defined(op, type)) cases.push_back({isa, op, type});
      }
    }
  }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string text =
      std::string(name(info.param.isa)) + "_" + name(info.param.op) + "_" + name(info.param.type);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

/// `count` elements at `misalignment` bytes past a multiple of 64, between guards.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t misalignment, unsigned char fill)
      : storage_(bytes + misalignment + 2 * kGuard + 64, fill), bytes_(bytes), fill_(fill) {
    const auto start = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    offset_ = kGuard + (64 - start % 64) % 64 + misalignment;
  }
  unsigned char* data() { return storage_.data() + offset_; }

  bool guards_intact() const {
    const auto untouched = [&](unsigned char c) { return c == fill_; };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<long>(offset_),
                       untouched) &&
           std::all_of(storage_.begin() + static_cast<long>(offset_ + bytes_), storage_.end(),
                       untouched);
  }

 private:
  std::vector<unsigned char> storage_;
  std::size_t bytes_, offset_ = 0;
  unsigned char fill_;
};

enum class Alias { none, left, right, both };
constexpr Alias kAliases[] = {Alias::none, Alias::left, Alias::right, Alias::both};
constexpr const char* kAliasNames[] = {"none", "out is left", "out is right", "all three are one"};

class Kernel : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(find_reduction(GetParam().op, GetParam().type, GetParam().isa, &reduction_));
  }

  /// Folds `count` random elements and compares every one of them.
  void check(std::size_t count, const std::array<std::size_t, 3>& misalignment, Alias alias,
             bool ordinary, Random& random) {
    const auto [isa, op, type] = GetParam();
    const std::size_t stride = extent_bytes(type), bytes = count * stride;
    Buffer left(bytes, misalignment[0], 0xa5), right(bytes, misalignment[1], 0xa5);
    Buffer out(bytes, misalignment[2], 0x5a);
    for (std::size_t i = 0; i < count; ++i) {
      oracle::random_element(type, ordinary, random, left.data() + i * stride);
      oracle::random_element(type, ordinary, random, right.data() + i * stride);
    }
    const std::vector<unsigned char> left_before(left.data(), left.data() + bytes);
    std::vector<unsigned char> right_before(right.data(), right.data() + bytes);
    if (alias == Alias::both) right_before = left_before;

    Buffer& second = alias == Alias::both ? left : right;
    Buffer& result = alias == Alias::none ? out : alias == Alias::right ? right : left;
    std::vector<unsigned char> expected(result.data(), result.data() + bytes);
    for (std::size_t i = 0; i < count; ++i) {
      oracle::combine(op, type, left_before.data() + i * stride, right_before.data() + i * stride,
                      expected.data() + i * stride);
    }
    reduction_.fold(left.data(), second.data(), result.data(), count, reduction_);

    const auto where = ::testing::Message()
                       << count << " elements, " << kAliasNames[static_cast<int>(alias)]
                       << ", misaligned by " << misalignment[0] << " " << misalignment[1] << " "
                       << misalignment[2];
    const bool equal = std::equal(expected.begin(), expected.end(), result.data());
    for (std::size_t i = 0; !equal && i < count; ++i) {
      ASSERT_TRUE(oracle::same(type, expected.data() + i * stride, result.data() + i * stride))
          << where << ": element " << i << ": " << hex(left_before.data() + i * stride, stride)
          << " and " << hex(right_before.data() + i * stride, stride) << " gave "
          << hex(result.data() + i * stride, stride) << ", not "
          << hex(expected.data() + i * stride, stride);
    }
    ASSERT_TRUE(left.guards_intact() && right.guards_intact() && out.guards_intact()) << where;
    if (alias == Alias::none || alias == Alias::right) {
      ASSERT_TRUE(std::equal(left_before.begin(), left_before.end(), left.data())) << where;
    }
    if (alias == Alias::none || alias == Alias::left) {
      ASSERT_TRUE(std::equal(right_before.begin(), right_before.end(), right.data())) << where;
    }
  }

  static std::string hex(const unsigned char* bytes, std::size_t count) {
    std::string text;
    for (std::size_t i = count; i-- > 0;) {
      text += "0123456789abcdef"[bytes[i] >> 4];
      text += "0123456789abcdef"[bytes[i] & 15];
    }
    return text;
  }

  Random seeded() const {
    const auto [isa, op, type] = GetParam();
    return Random(testing::random_seed(static_cast<std::uint64_t>(type) * 64 +
                                       static_cast<std::uint64_t>(op)));
  }

  Reduction reduction_;
};

TEST_P(Kernel, IsRightForEverySmallCount) {
  Random random = seeded();
  for (std::size_t count = 0; count <= 67; ++count) {
    for (const Alias alias : kAliases) {
      check(count, {random() % 16, random() % 16, random() % 16}, alias, count % 2 == 0, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Kernel, IsRightAroundMultiplesOfTheVector) {
  Random random = seeded();
  const std::size_t widest = 64 / std::min<std::size_t>(64, extent_bytes(GetParam().type));
  for (const std::size_t vectors : {4, 5, 8, 9, 12, 13, 16, 21}) {
    for (int off = -1; off <= 1; ++off) {
      const std::size_t count = vectors * widest + static_cast<std::size_t>(off);
      for (const Alias alias : kAliases) {
        check(count, {random() % 64, random() % 64, random() % 64}, alias, off == 0, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Kernel, IsRightAtEveryMisalignment) {
  Random random = seeded();
  const std::size_t count = 700 / extent_bytes(GetParam().type) + 11;
  for (std::size_t left = 0; left < 16; ++left) {
    for (std::size_t right = 0; right < 16; right += 1 + random() % 3) {
      const Alias alias = kAliases[random() % 4];
      check(count, {left, right, random() % 16}, alias, false, random);
      check(count, {random() % 16, right, left}, Alias::none, false, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Kernel, IsRightForALongVector) {
  Random random = seeded();
  for (const Alias alias : kAliases) {
    check(5003, {0, 0, 0}, alias, false, random);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kernel, ::testing::ValuesIn(all_cases()), case_name);

#if defined(__x86_64__)
TEST(InstructionSets, AllAreTested) {
  if (widest_isa() != Isa::avx512) {
    GTEST_SKIP() << "NOT TESTED: the kernels wider than " << name(widest_isa())
                 << ", which is all that this machine can run";
  }
}
#endif

// ---- which there are ---------------------------------------------------------------------------

TEST(FindReduction, HasExactlyWhatMpiDefines) {
  for (const Isa isa : kAllIsas) {
    if (isa > widest_isa()) continue;
    for (const Type type : all_types()) {
      for (const Op op : kOps) {
        Reduction reduction;
        EXPECT_EQ(find_reduction(op, type, isa, &reduction), oracle::defined(op, type))
            << name(isa) << " " << name(op) << " " << name(type);
      }
    }
  }
}

TEST(FindReduction, DescribesThePredefinedOperators) {
  for (const Type type : all_types()) {
    for (const Op op : kOps) {
      Reduction reduction;
      if (!find_reduction(op, type, &reduction)) continue;
      EXPECT_NE(reduction.fold, nullptr);
      EXPECT_EQ(reduction.element_bytes, extent_bytes(type));
      EXPECT_TRUE(reduction.commutative && reduction.divisible && reduction.any_thread);
      EXPECT_EQ(reduction.context, nullptr);
    }
  }
}

TEST(FindReduction, LeavesTheResultAloneOnFailure) {
  Reduction reduction;
  int mark = 0;
  reduction.context = &mark;
  reduction.element_bytes = 12345;
  EXPECT_FALSE(find_reduction(Op::band, Type::f32, &reduction));
  EXPECT_FALSE(find_reduction(Op::sum, Type::count_, &reduction));
  EXPECT_FALSE(find_reduction(static_cast<Op>(200), Type::i32, &reduction));
  EXPECT_EQ(reduction.context, &mark);
  EXPECT_EQ(reduction.element_bytes, 12345U);
  EXPECT_EQ(reduction.fold, nullptr);
}

TEST(FindReduction, ChoosesTheWidestInstructionSet) {
  Reduction automatic, widest;
  ASSERT_TRUE(find_reduction(Op::sum, Type::f64, &automatic));
  ASSERT_TRUE(find_reduction(Op::sum, Type::f64, widest_isa(), &widest));
  EXPECT_EQ(automatic.fold, widest.fold);
}

TEST(Types, HaveTheExtentsOfC) {
  struct FloatInt {
    float v;
    int i;
  };
  struct DoubleInt {
    double v;
    int i;
  };
  struct LongInt {
    std::int64_t v;
    int i;
  };
  struct ShortInt {
    short v;
    int i;
  };
  struct LongDoubleInt {
    long double v;
    int i;
  };
  const std::vector<std::pair<Type, std::size_t>> expected = {
      {Type::i8, 1},
      {Type::i16, 2},
      {Type::i32, 4},
      {Type::i64, 8},
      {Type::u8, 1},
      {Type::u16, 2},
      {Type::u32, 4},
      {Type::u64, 8},
      {Type::f16, 2},
      {Type::bf16, 2},
      {Type::f32, 4},
      {Type::f64, 8},
      {Type::long_double, sizeof(long double)},
      {Type::f128, 16},
      {Type::c32, 8},
      {Type::c64, 16},
      {Type::c_long_double, sizeof(std::complex<long double>)},
      {Type::bool8, sizeof(bool)},
      {Type::bool32, 4},
      {Type::byte, 1},
      {Type::logical8, 1},
      {Type::logical16, 2},
      {Type::logical64, 8},
      {Type::pair_f32_i32, sizeof(FloatInt)},
      {Type::pair_f64_i32, sizeof(DoubleInt)},
      {Type::pair_i64_i32, sizeof(LongInt)},
      {Type::pair_i16_i32, sizeof(ShortInt)},
      {Type::pair_i32_i32, 8},
      {Type::pair_long_double_i32, sizeof(LongDoubleInt)},
      {Type::pair_f32_f32, 8},
      {Type::pair_f64_f64, 16}};
  EXPECT_EQ(expected.size(), all_types().size());
  for (const auto& [type, bytes] : expected) EXPECT_EQ(extent_bytes(type), bytes) << name(type);
}

TEST(Types, AndOperatorsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Type type : all_types()) names.insert(name(type));
  EXPECT_EQ(names.size(), all_types().size());
  for (const Op op : kOps) names.insert(name(op));
  EXPECT_EQ(names.size(), all_types().size() + std::size(kOps));
  EXPECT_FALSE(names.contains("?"));
}

// ---- what the combinations promise, by example
// ---------------------------------------------------

template <class T>
T reduce(Op op, Type type, T left, T right) {
  Reduction reduction;
  EXPECT_TRUE(find_reduction(op, type, &reduction)) << name(op) << " " << name(type);
  T out{};
  if (reduction.fold != nullptr) reduction.fold(&left, &right, &out, 1, reduction);
  return out;
}

TEST(Meaning, IntegersWrap) {
  EXPECT_EQ(reduce<std::int8_t>(Op::sum, Type::i8, 127, 1), -128);
  EXPECT_EQ(reduce<std::int32_t>(Op::sum, Type::i32, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(reduce<std::int64_t>(Op::prod, Type::i64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(reduce<std::uint16_t>(Op::prod, Type::u16, 65535, 65535), 1);
}

TEST(Meaning, SignDecidesOrder) {
  EXPECT_EQ(reduce<std::int8_t>(Op::max, Type::i8, -1, 1), 1);
  EXPECT_EQ(reduce<std::uint8_t>(Op::max, Type::u8, 255, 1), 255);
}

TEST(Meaning, AnythingButZeroIsTrueAndTrueIsOne) {
  EXPECT_EQ(reduce<std::int32_t>(Op::land, Type::i32, 6, 8), 1);
  EXPECT_EQ(reduce<std::int32_t>(Op::lxor, Type::bool32, -1, 2), 0);
  EXPECT_EQ(reduce<std::uint8_t>(Op::lor, Type::bool8, 0, 0x80), 1);
  EXPECT_EQ(reduce<std::int64_t>(Op::land, Type::logical64, std::int64_t{1} << 40, -1), 1);
}

TEST(Meaning, LeftIsTakenOfEqualZerosAndBesideNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::signbit(reduce(Op::max, Type::f64, -0.0, 0.0)));
  EXPECT_FALSE(std::signbit(reduce(Op::min, Type::f64, 0.0, -0.0)));
  EXPECT_EQ(reduce(Op::min, Type::f64, 1.0, nan), 1.0);
  EXPECT_TRUE(std::isnan(reduce(Op::min, Type::f64, nan, 1.0)));
}

TEST(Meaning, TiesGoToTheLowerIndex) {
  struct DoubleInt {
    double value;
    int index;
  };
  const auto tie = reduce<DoubleInt>(Op::maxloc, Type::pair_f64_i32, {2, 7}, {2, -3});
  EXPECT_EQ(tie.value, 2);
  EXPECT_EQ(tie.index, -3);
  const auto less = reduce<DoubleInt>(Op::minloc, Type::pair_f64_i32, {1, 7}, {2, 3});
  EXPECT_EQ(less.value, 1);
  EXPECT_EQ(less.index, 7);
}

TEST(Meaning, ComplexInfinitiesSurvive) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::complex<double> all_infinite(infinity, infinity), i(0, 1);
  const auto product = reduce(Op::prod, Type::c64, all_infinite, i);
  EXPECT_TRUE(std::isinf(product.real()) || std::isinf(product.imag()));
}

// ---- conversions of half precision
// ---------------------------------------------------------------

float reduced_to(Type type, float value) {  // by way of the oracle's rounding: value + 0
  std::uint16_t zero = 0,
                bits = type == Type::f16 ? float_to_half(value) : float_to_bfloat16(value);
  std::uint16_t out = 0;
  oracle::combine(Op::sum, type, &bits, &zero, &out);
  return type == Type::f16 ? half_to_float(out) : bfloat16_to_float(out);
}

TEST(Half, EveryValueSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7fff) <= 0x7c00) {
      ASSERT_EQ(float_to_half(half_to_float(half)), half);
      const int exponent = half >> 10 & 31, fraction = half & 1023;
      const float magnitude = exponent == 31 ? std::numeric_limits<float>::infinity()
                              : exponent == 0
                                  ? std::ldexp(static_cast<float>(fraction), -24)
                                  : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
      ASSERT_EQ(half_to_float(half), bits & 0x8000 ? -magnitude : magnitude);
    } else {
      ASSERT_TRUE(std::isnan(half_to_float(half)));
      ASSERT_GT(float_to_half(half_to_float(half)) & 0x7fff, 0x7c00);
    }
    if ((bits & 0x7fff) <= 0x7f80) {
      ASSERT_EQ(float_to_bfloat16(bfloat16_to_float(half)), half);
      ASSERT_EQ(reduced_to(Type::bf16, bfloat16_to_float(half)), bfloat16_to_float(half));
    }
  }
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  const auto check = [](auto&& to_float, auto&& from_float, unsigned infinity) {
    for (unsigned low = 0; low + 1 < infinity; ++low) {
      const auto a = static_cast<std::uint16_t>(low), b = static_cast<std::uint16_t>(low + 1);
      const float middle = to_float(a) / 2 + to_float(b) / 2;
      const bool exact = static_cast<double>(to_float(a)) + to_float(b) == 2.0 * middle;
      if (exact) {
        ASSERT_EQ(from_float(middle), low % 2 == 0 ? a : b) << low;
      }
      ASSERT_EQ(from_float(std::nextafter(middle, 0.0F)), a) << low;
      ASSERT_EQ(from_float(std::nextafter(middle, INFINITY)), b) << low;
      ASSERT_EQ(from_float(-std::nextafter(middle, INFINITY)), b | 0x8000) << low;
    }
  };
  check(half_to_float, float_to_half, 0x7c00);
  check(bfloat16_to_float, float_to_bfloat16, 0x7f80);
}

TEST(Half, OverflowsToInfinityFromHalfWayOn) {
  EXPECT_EQ(float_to_half(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30F), 0xfc00);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace tutti
