// Jobs with dedicated processors, without any MPI: APPs and DCPs as threads or as processes.
#pragma once

#include "support/local_jobs.hpp"

namespace tutti::test {

/// Runs `body` on `apps` threads; `processors` more threads serve them. `node_of` (may be empty:
/// one node): of each APP, then of each DCP; nodes communicate over libfabric on the loopback.
void run_dedicated(int apps, int processors, const Settings& settings, const Body& body,
                   const std::vector<int>& node_of = {});

/// The same with a process for each. The wait statuses, those of the DCPs last; a DCP that has
/// served to the end exits with 0.
std::vector<int> run_dedicated_processes(int apps, int processors, const Settings& settings,
                                         const Body& body);

}  // namespace tutti::test
