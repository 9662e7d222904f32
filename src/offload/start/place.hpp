// Where a dedicated processor runs: which CPU it has for itself, and how it waits.
#pragma once

#include <cstdint>

#include "base/settings.hpp"
#include "base/status.hpp"

namespace tutti::offload {

/// What each process of a job tells the others first.
struct Introduction {
  std::uint64_t node, machine;
  std::uint64_t cpus[16];  // where it may run
  std::uint64_t code;      // Code
};
Introduction introduce(const Settings& settings);

/// What a dedicated processor must know about its machine.
struct Place {
  std::int32_t index;            // among the dedicated processors of the machine
  std::int32_t machine_ranks;    // processes of the program there
  std::int32_t machine_helpers;  // dedicated processors there
  std::uint64_t cpus[16];        // where the program's processes may run
};

/// Binds this process and chooses how it waits: with a CPU of its own it spins, on a shared one it
/// soon sleeps. Sets TUTTI_WAIT and TUTTI_SPIN_US in the environment, for the job that is created
/// next.
Status settle(const Place& place, const Settings& settings);

}  // namespace tutti::offload
