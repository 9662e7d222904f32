// What a reduction of two elements gives, computed in other ways than the kernels do: integers in
// 128 bits, bit by bit; floats in a wider type, rounded once; half precision by search in a table.
#pragma once

#include <cstddef>
#include <random>

#include "base/reduction.hpp"

namespace tutti::oracle {

using Random = std::mt19937_64;

/// Every combination that MPI-4.1 section 6.9.2 defines, spelt out from its table.
bool defined(Op op, Type type);

/// Writes one random element: ordinary values, extremes, and for floats NaN, infinities, zeros of
/// both signs and subnormals. `ordinary` leaves out all but the first.
void random_element(Type type, bool ordinary, Random& random, void* to);

/// out = left (op) right for one element. Padding of pairs in `out` is left as it is.
void combine(Op op, Type type, const void* left, const void* right, void* out);

/// Equal bits in all that counts: padding does not, and neither does which NaN a NaN is.
bool same(Type type, const void* a, const void* b);

/// Whether a float, a part of a complex number or the value of a pair is NaN; false for integers.
bool has_nan(Type type, const void* element);

}  // namespace tutti::oracle
