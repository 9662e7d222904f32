// Sums that are rounded once: what TUTTI_FIXED_ORDER=exact makes of MPI_SUM on floating-point
// numbers (decision 0049).
//
// The result is the sum of all operands as real numbers, rounded to nearest even. So it depends
// neither on their order nor on who adds what. In particular:
//   overflow    only where the sum itself, rounded, is larger than the largest number
//   zero        negative only where all operands are negative zeros
//   infinities  of one sign give that infinity, of both signs NaN
//   NaN         any one gives the quiet NaN with a clear sign and no payload
// What the program has set of its processor (rounding, flushing of subnormals, traps) changes
// nothing, and is as before afterwards.
#pragma once

#include "base/reduction.hpp"

namespace tutti {

/// How to sum elements of this type; nullptr where it is not of floating-point numbers. Complex
/// numbers are two sums. Thread-safe.
SumFunction find_exact_sum(Type type) noexcept;

/// Has the sums of floating-point numbers formed at once and exactly; leaves all others alone.
void make_exact(Reduction* reduction) noexcept;

}  // namespace tutti
