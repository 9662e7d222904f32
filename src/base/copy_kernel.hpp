// The kernels behind copy_large and copy_streaming. Internal to base and its tests.
#pragma once

#include <cstddef>

#include "base/cpu.hpp"

namespace tutti {

/// Copies more than kSmallCopy bytes between blocks that do not overlap.
using CopyFunction = void (*)(void* to, const void* from, std::size_t bytes);

/// The kernel of `isa`, which this machine must be able to run.
CopyFunction find_copy_kernel(Isa isa) noexcept;
CopyFunction find_streaming_copy_kernel(Isa isa) noexcept;

}  // namespace tutti
