// The sums behind find_exact_sum(), by type. Internal to base and its tests.
#pragma once

#include "base/cpu.hpp"
#include "base/exact_sum.hpp"

namespace tutti {

// Each returns nullptr for what is not of its family.
SumFunction find_exact_vector_sum(Type type, Isa isa) noexcept;  // f32, f64, and complex of these
SumFunction find_exact_scalar_sum(Type type) noexcept;           // all others

/// By the accumulator alone, element by element: what the vector sums do where they cannot be sure.
SumFunction find_accumulated_sum(Type type) noexcept;

}  // namespace tutti
