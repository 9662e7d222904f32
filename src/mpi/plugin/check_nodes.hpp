// TUTTI_CHECK=calls on communicators whose members do not all share memory: what each of them
// passes to a collective is gathered, so that ranks of different machines are compared, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mpi/plugin/comm.hpp"
#include "mpi/record/record.h"

namespace tutti::mpi {

/// Compares what this rank passes to a blocking collective with what the others pass, before it
/// runs. Collective over the communicator: waits for all members, as the call itself may.
void compare_blocking(const Comm& comm, const tutti_past& mine) noexcept;
/// The same of a non-blocking or persistent one, in the order in which they are made. Collective
/// over the communicator. Returns at once; look_at_comparisons() says what has come of it.
void begin_comparison(Comm& comm, const tutti_past& mine) noexcept;
/// Whether any is under way. Any thread.
inline bool comparing() noexcept;
/// Whether that of the call which the communicator has by this number is. It counts as complete
/// only then: what does not match may go wrong in any way, and is said before. Any thread.
bool being_compared(const Comm& comm, std::uint64_t number) noexcept;
/// Tells of those that are over. Never waits. Any thread that may call the core.
void look_at_comparisons() noexcept;
/// Waits for all of them. Collective over the communicators that have any.
void end_comparisons() noexcept;

extern std::atomic<std::size_t> comparisons_under_way;
inline bool comparing() noexcept {
  return comparisons_under_way.load(std::memory_order_relaxed) != 0;
}

}  // namespace tutti::mpi
