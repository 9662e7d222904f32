// What the machine at hand costs, measured: the terms of a profile's table [host].
#pragma once

#include <string>

#include "base/status.hpp"

namespace tutti::model {

/// Microseconds, and microseconds per byte. Medians of several rounds.
struct HostCosts {
  double line = 0;  // a cache line from one core to another: half a round trip of two threads
  double copy_per_byte = 0;  // 64 KiB from memory that another buffer's copy has left in the cache
  double reduce = 0;         // a reduction of one element
  double reduce_per_byte = 0;  // and for each further byte: sums of 32-bit integers
  double call = 0;  // a system call that does nothing but copy one word (process_vm_readv)
};

/// Takes about 0.2 s and two processors. Fails with unsupported where this process may use only
/// one: two threads then take turns, and the figure would be the scheduler's. `*message` says so in
/// one line.
Status measure_host(HostCosts* out, std::string* message);

}  // namespace tutti::model
