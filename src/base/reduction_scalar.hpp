// The operators on one element, and the loop over elements for what is not vectorised by hand.
// Internal to base.
#pragma once

#include <complex>
#include <type_traits>

#include "base/reduction.hpp"

// Says that a loop carries nothing from one round to the next, although its output may be one of
// its inputs.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // not every type can be vectorised
#define TUTTI_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TUTTI_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace tutti::scalar {

/// A number at any address. Not by memcpy: of a long double that goes through vector registers,
/// which then wait for what the x87 unit stores, and the other way round.
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

template <class T>
struct Memory {
  static T load(const void* from) { return static_cast<const Unaligned<T>*>(from)->value; }
  static void store(T value, void* to) { static_cast<Unaligned<T>*>(to)->value = value; }
};

template <class T>
struct Memory<std::complex<T>> {
  static std::complex<T> load(const void* from) {
    const auto* parts = static_cast<const Unaligned<T>*>(from);
    return {parts[0].value, parts[1].value};
  }
  static void store(std::complex<T> value, void* to) {
    auto* parts = static_cast<Unaligned<T>*>(to);
    parts[0].value = value.real();
    parts[1].value = value.imag();
  }
};

template <class T>
T load(const void* from, std::size_t index = 0) {
  return Memory<T>::load(static_cast<const char*>(from) + index * sizeof(T));
}

template <class T>
void store(T value, void* to, std::size_t index = 0) {
  Memory<T>::store(value, static_cast<char*>(to) + index * sizeof(T));
}

/// The type to compute in: for integers one that wraps, and that is not promoted to a signed one.
template <class T>
struct Arithmetic {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Arithmetic<T> {
  using type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};

struct Sum {
  template <class T>
  static T combine(T left, T right) {
    using A = typename Arithmetic<T>::type;
    return static_cast<T>(static_cast<A>(left) + static_cast<A>(right));
  }
};
struct Prod {
  template <class T>
  static T combine(T left, T right) {
    using A = typename Arithmetic<T>::type;
    return static_cast<T>(static_cast<A>(left) * static_cast<A>(right));
  }
};
struct Min {
  template <class T>
  static T combine(T left, T right) {
    return right < left ? right : left;
  }
};
struct Max {
  template <class T>
  static T combine(T left, T right) {
    return right > left ? right : left;
  }
};
struct And {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>(left & right);
  }
};
struct Or {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>(left | right);
  }
};
struct Xor {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>(left ^ right);
  }
};
struct LogicalAnd {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>((left != 0) & (right != 0));
  }
};
struct LogicalOr {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>((left | right) != 0);
  }
};
struct LogicalXor {
  template <class T>
  static T combine(T left, T right) {
    return static_cast<T>((left != 0) != (right != 0));
  }
};

/// A FoldFunction for elements of type T. Any alignment.
template <class Operator, class T>
void fold(const void* left, const void* right, void* out, std::size_t count, const Reduction&) {
  TUTTI_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    store(Operator::combine(load<T>(left, i), load<T>(right, i)), out, i);
  }
}

}  // namespace tutti::scalar
