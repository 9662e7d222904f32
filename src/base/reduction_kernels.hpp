// The kernels behind find_reduction, one family a file. Internal to base and its tests.
//
// Operands are `left` (of the lower ranks) and `right`. Semantics, the same for every instruction
// set and, bit for bit, those of MPI_Reduce_local of MPICH and Open MPI with right in inoutbuf:
//   sum, prod     integers wrap; floats round once per operation and are never contracted;
//                 half and bfloat16 are computed in float and rounded to nearest even;
//                 complex products follow Annex G of C (infinities survive).
//   min, max      right < left ? right : left. So of two equal zeros, and of two values of which
//                 one is NaN, left is taken.
//   land lor lxor 0 or 1; every bit pattern but zero is true.
//   minloc maxloc of equal values the lower index; where a value is NaN, right is taken.
#pragma once

#include "base/cpu.hpp"
#include "base/reduction.hpp"

namespace tutti {

/// As find_reduction, with the kernels of `isa`, which this machine must be able to run.
bool find_reduction(Op op, Type type, Isa isa, Reduction* out) noexcept;

// Each returns nullptr for what is not of its family or not defined by MPI.
FoldFunction find_integer_kernel(Op op, Type type, Isa isa) noexcept;  // logical and byte, too
FoldFunction find_float_kernel(Op op, Type type, Isa isa) noexcept;    // f32, f64, c32, c64
FoldFunction find_half_kernel(Op op, Type type, Isa isa) noexcept;     // f16, bf16
FoldFunction find_pair_kernel(Op op, Type type, Isa isa) noexcept;     // minloc, maxloc
FoldFunction find_wide_kernel(Op op, Type type) noexcept;  // long double, f128, and complex

}  // namespace tutti
