// A long accumulator for floating-point numbers (Kulisch): an integer in units of the smallest
// subnormal number, in which every finite number of the format is a whole one. Digits of 32 bits
// lie in 64, so that carries wait until the end (Neal's small superaccumulator, 2015).
//
// Works on bits alone: it does not matter how the processor is set to round. Internal to base.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tutti::exact {

__extension__ typedef unsigned __int128 Wide;

enum class Kind : std::uint8_t { finite, infinite, nan };

/// A number taken apart: (-1)^negative * mantissa * 2^position units.
struct Parts {
  Wide mantissa = 0;
  std::uint32_t position = 0;
  bool negative = false;
  Kind kind = Kind::finite;
};

/// A binary format of IEEE 754 with a hidden bit.
template <class Bits, int digits, int exponent_bits>
struct Interchange {
  static constexpr std::size_t kBytes = sizeof(Bits);
  static constexpr int kDigits = digits;
  static constexpr std::uint32_t kTopExponent = (1U << exponent_bits) - 1;  // infinity and NaN

  static Parts load(const void* from) noexcept {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    const Bits fraction = bits & (kHidden - 1);
    const auto exponent = static_cast<std::uint32_t>(bits >> (digits - 1)) & kTopExponent;
    Parts parts;
    parts.negative = (bits >> (digits - 1 + exponent_bits)) != 0;
    parts.mantissa = exponent == 0 ? fraction : fraction | kHidden;
    parts.position = exponent == 0 ? 0 : exponent - 1;
    if (exponent == kTopExponent) parts.kind = fraction == 0 ? Kind::infinite : Kind::nan;
    return parts;
  }
  /// `mantissa` has its top bit set, or `position` is 0.
  static void store(const Parts& parts, void* to) noexcept {
    const bool finite = parts.kind == Kind::finite && parts.position + 1 < kTopExponent;
    const auto mantissa = static_cast<Bits>(parts.mantissa);
    const bool normal = (mantissa & kHidden) != 0;
    const std::uint32_t exponent = finite ? (normal ? parts.position + 1 : 0) : kTopExponent;
    Bits bits = finite ? mantissa & (kHidden - 1) : 0;
    if (parts.kind == Kind::nan) bits = kHidden >> 1;
    bits |= static_cast<Bits>(exponent) << (digits - 1);
    if (parts.negative && parts.kind != Kind::nan)
      bits |= static_cast<Bits>(Bits{1} << (digits - 1 + exponent_bits));
    std::memcpy(to, &bits, sizeof bits);
  }

 private:
  static constexpr Bits kHidden = static_cast<Bits>(Bits{1} << (digits - 1));
};

using Half = Interchange<std::uint16_t, 11, 5>;
using Bfloat16 = Interchange<std::uint16_t, 8, 8>;
using Single = Interchange<std::uint32_t, 24, 8>;
using Double = Interchange<std::uint64_t, 53, 11>;
using Quad = Interchange<Wide, 113, 15>;

/// The extended format of x87: no hidden bit. Padding is left as it is.
struct Extended {
  static constexpr std::size_t kBytes = 16;
  static constexpr int kDigits = 64;
  static constexpr std::uint32_t kTopExponent = 0x7fff;

  static Parts load(const void* from) noexcept {
    std::uint64_t mantissa;
    std::uint16_t top;
    std::memcpy(&mantissa, from, sizeof mantissa);
    std::memcpy(&top, static_cast<const char*>(from) + sizeof mantissa, sizeof top);
    const std::uint32_t exponent = top & kTopExponent;
    const bool normal = mantissa >> 63 != 0;
    Parts parts;
    parts.negative = top >> 15 != 0;
    parts.mantissa = mantissa;
    parts.position = exponent == 0 ? 0 : exponent - 1;
    // Exponents without a leading one are no numbers to the processor either.
    if (exponent != 0 && !normal) {
      parts.kind = Kind::nan;
    } else if (exponent == kTopExponent) {
      parts.kind = mantissa << 1 == 0 ? Kind::infinite : Kind::nan;
    }
    return parts;
  }
  static void store(const Parts& parts, void* to) noexcept {
    const bool finite = parts.kind == Kind::finite && parts.position + 1 < kTopExponent;
    constexpr std::uint64_t kLeading = std::uint64_t{1} << 63;
    auto mantissa = static_cast<std::uint64_t>(parts.mantissa);
    std::uint32_t top = mantissa >> 63 != 0 ? parts.position + 1 : 0;
    if (!finite) {
      mantissa = parts.kind == Kind::nan ? kLeading | kLeading >> 1 : kLeading;
      top = kTopExponent;
    }
    if (parts.negative && parts.kind != Kind::nan) top |= 0x8000;
    const auto stored = static_cast<std::uint16_t>(top);
    std::memcpy(to, &mantissa, sizeof mantissa);
    std::memcpy(static_cast<char*>(to) + sizeof mantissa, &stored, sizeof stored);
  }
};

/// mantissa * 2^position units as a number of the format, rounded to nearest even. `mantissa` is
/// not 0; `position` may be negative where the number is one of whole units nevertheless.
template <class Format>
Parts rounded(bool negative, std::uint64_t mantissa, int position) noexcept {
  const int top = position + std::bit_width(mantissa) - 1;
  const int target = std::max(0, top - (Format::kDigits - 1));
  const int drop = target - position;
  Parts result;
  result.negative = negative;
  result.position = static_cast<std::uint32_t>(target);
  if (drop <= 0) {
    result.mantissa = mantissa << -drop;
    return result;
  }
  const std::uint64_t kept = mantissa >> drop, lost = mantissa & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  result.mantissa = kept + (lost > half || (lost == half && (kept & 1) != 0) ? 1 : 0);
  if ((result.mantissa >> Format::kDigits) != 0) {
    result.mantissa >>= 1;
    ++result.position;
  }
  return result;
}

/// The sum of up to 2^31 numbers of a format.
template <class Format>
class Accumulator {
 public:
  void add(const Parts& x) noexcept {
    if (x.kind != Kind::finite) {
      (x.kind == Kind::nan ? nan_ : x.negative ? minus_infinity_ : plus_infinity_) = true;
      return;
    }
    all_minus_zero_ &= x.negative && x.mantissa == 0;
    if (x.mantissa == 0) return;
    const int first = static_cast<int>(x.position / kBits);
    const int shift = static_cast<int>(x.position % kBits);
    reach(first, first + kPieces);
    Wide rest = x.mantissa;
    for (int i = first; rest != 0; ++i, rest >>= kBits) {
      const std::uint64_t piece = (static_cast<std::uint64_t>(rest) & kMask) << shift;
      add_digit(i, piece & kMask, x.negative);
      add_digit(i + 1, piece >> kBits, x.negative);
    }
  }

  /// Rounded to nearest even; nothing is to be added afterwards.
  Parts rounded() noexcept {
    Parts result;
    if (nan_ || (plus_infinity_ && minus_infinity_)) {
      result.kind = Kind::nan;
      return result;
    }
    if (plus_infinity_ || minus_infinity_) {
      result.kind = Kind::infinite;
      result.negative = minus_infinity_;
      return result;
    }
    result.negative = low_ <= high_ ? carry() : all_minus_zero_;
    while (high_ >= low_ && digit_[high_] == 0) --high_;
    if (high_ < low_) {
      if (touched_) result.negative = false;  // what was there has cancelled
      return result;
    }
    const int top = high_ * kBits + std::bit_width(static_cast<std::uint64_t>(digit_[high_])) - 1;
    round(top, &result);
    return result;
  }

 private:
  static constexpr int kBits = 32;
  static constexpr std::uint64_t kMask = 0xffffffff;
  /// Digits that a mantissa meets, at any shift.
  static constexpr int kPieces = (Format::kDigits + kBits - 1 + kBits - 1) / kBits;
  static constexpr int kMostBits = static_cast<int>(Format::kTopExponent) - 1 + Format::kDigits;
  static constexpr int kDigitCount = kMostBits / kBits + kPieces + 3;

  void add_digit(int i, std::uint64_t value, bool negative) noexcept {
    const auto digit = static_cast<std::int64_t>(value);
    digit_[i] += negative ? -digit : digit;
  }
  /// Digits [low, high] exist.
  void reach(int low, int high) noexcept {
    if (!touched_) {
      touched_ = true;
      low_ = low;
      high_ = low - 1;
    }
    while (low_ > low) digit_[--low_] = 0;
    while (high_ < high) digit_[++high_] = 0;
  }
  /// Makes it sign and magnitude, with digits of 32 bits. Returns the sign.
  bool carry() noexcept {
    reach(low_, high_ + 2);
    std::int64_t carried = propagate();
    if (carried >= 0) return false;
    for (int i = low_; i <= high_; ++i) digit_[i] = -digit_[i];
    digit_[high_] -= carried * (std::int64_t{1} << kBits);
    propagate();
    return true;
  }
  std::int64_t propagate() noexcept {
    std::int64_t carried = 0;
    for (int i = low_; i <= high_; ++i) {
      const std::int64_t value = digit_[i] + carried;
      digit_[i] = value & static_cast<std::int64_t>(kMask);
      carried = value >> kBits;
    }
    return carried;
  }
  std::uint64_t digit(int i) const noexcept {
    return i < low_ || i > high_ ? 0 : static_cast<std::uint64_t>(digit_[i]);
  }
  /// The bits [position, position + kDigits).
  Wide bits_at(int position) const noexcept {
    const int first = position / kBits, shift = position % kBits;
    Wide bits = 0;
    for (int i = 0; i * kBits - shift < Format::kDigits; ++i) {
      const Wide piece = digit(first + i);
      bits |= i == 0 ? piece >> shift : piece << (i * kBits - shift);
    }
    return bits & ((Wide{1} << Format::kDigits) - 1);
  }
  bool any_below(int position) const noexcept {
    const int last = position / kBits;
    if ((digit(last) & ((std::uint64_t{1} << (position % kBits)) - 1)) != 0) return true;
    for (int i = low_; i < std::min(last, high_ + 1); ++i)
      if (digit_[i] != 0) return true;
    return false;
  }
  /// The number whose highest bit is `top`.
  void round(int top, Parts* out) const noexcept {
    const int position = std::max(0, top - (Format::kDigits - 1));
    out->mantissa = bits_at(position);
    out->position = static_cast<std::uint32_t>(position);
    if (position == 0) return;
    const int half = position - 1;
    if ((digit(half / kBits) >> (half % kBits) & 1) == 0) return;
    if ((out->mantissa & 1) == 0 && !any_below(half)) return;
    if ((++out->mantissa >> Format::kDigits) != 0) {
      out->mantissa >>= 1;
      ++out->position;
    }
  }

  bool nan_ = false, plus_infinity_ = false, minus_infinity_ = false;
  bool all_minus_zero_ = true;
  bool touched_ = false;
  int low_ = 0, high_ = -1;  // the digits that exist
  std::int64_t digit_[kDigitCount];
};

}  // namespace tutti::exact
