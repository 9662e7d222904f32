// The layout of the pair types, which MPI defines as that of a C struct. Internal to base.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reduction.hpp"

namespace tutti {

template <class V, class I>
struct Pair {
  V value;
  I index;
};

/// Calls function.operator()<P>() with the Pair that `type` stands for; returns `otherwise` for
/// other types.
template <class Result, class Function>
Result with_pair(Type type, Result otherwise, Function&& function) {
  switch (type) {
    case Type::pair_f32_i32:
      return function.template operator()<Pair<float, std::int32_t>>();
    case Type::pair_f64_i32:
      return function.template operator()<Pair<double, std::int32_t>>();
    case Type::pair_i64_i32:
      return function.template operator()<Pair<std::int64_t, std::int32_t>>();
    case Type::pair_i16_i32:
      return function.template operator()<Pair<std::int16_t, std::int32_t>>();
    case Type::pair_i32_i32:
      return function.template operator()<Pair<std::int32_t, std::int32_t>>();
    case Type::pair_long_double_i32:
      return function.template operator()<Pair<long double, std::int32_t>>();
    case Type::pair_f32_f32:
      return function.template operator()<Pair<float, float>>();
    case Type::pair_f64_f64:
      return function.template operator()<Pair<double, double>>();
    default:
      return otherwise;
  }
}

}  // namespace tutti
