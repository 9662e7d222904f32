// IEEE half precision and bfloat16, one value at a time, for processors that have no instructions
// for them. Rounds to nearest even; a NaN comes out quiet, its payload cut, as the instructions do.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  std::uint32_t magnitude;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24, normal as a float
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  } else if (exponent == 0x1f) {
    magnitude = 0x7f800000 | fraction << 13 | (fraction != 0 ? 0x00400000 : 0);
  } else {
    magnitude = (exponent + 112) << 23 | fraction << 13;
  }
  return std::bit_cast<float>(sign | magnitude);
}

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // rounds to 2^16, or is infinite
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // at least 2^-14, the least normal half
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else if (magnitude > 0x33000000) {  // above 2^-25: at least half of the least subnormal
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    const std::uint32_t down = fraction >> shift;
    half = (fraction + (1U << (shift - 1)) - 1 + (down & 1)) >> shift;
  } else {
    half = 0;
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float bfloat16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  const std::uint32_t rounded = nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<std::uint16_t>(rounded >> 16);
}

}  // namespace tutti
