// How many cores this process may use.
#pragma once

namespace tutti {

/// Cores of the affinity mask, reduced to the CPU quota of the cgroup (v2 or v1); at least 1.
/// Thread-safe; reads /sys.
int available_cores() noexcept;

}  // namespace tutti
