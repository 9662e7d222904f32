// One element of an exact sum, by the accumulator. Internal to base.
#pragma once

#include <cstddef>

#include "base/exact_accumulator.hpp"
#include "base/reduction.hpp"

namespace tutti::exact {

/// Number `index` of all operands, which are vectors of numbers of this format.
template <class Format>
__attribute__((noinline)) void sum_element(const Operands& operands, std::size_t index, void* out) {
  Accumulator<Format> sum;
  for (int member = 0; member < operands.count; ++member)
    sum.add(
        Format::load(static_cast<const unsigned char*>(operands[member]) + index * Format::kBytes));
  Format::store(sum.rounded(), out);
}

/// A SumFunction. `numbers` of each element are summed for themselves. Element by element, since
/// the result may lie where an operand does.
template <class Format, std::size_t numbers>
void accumulate(const Operands& operands, void* out, std::size_t elements) {
  for (std::size_t i = 0; i < elements * numbers; ++i)
    sum_element<Format>(operands, i, static_cast<unsigned char*>(out) + i * Format::kBytes);
}

}  // namespace tutti::exact
