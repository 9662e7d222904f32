// What a collective takes on the machine at hand, without an MPI: ranks are threads of this
// process.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace tutti {

/// Microseconds per call of `bytes` with `ranks` ranks, the slowest rank's average over `calls`.
/// `algorithm`: "OP=NAME[:KEY=VALUE]"; fails with unsupported where it cannot run, `*message` says
/// why in one line.
Status measure_collective(const std::string& algorithm, std::size_t bytes, int ranks, int calls,
                          double* us, std::string* message);

}  // namespace tutti
