// Counting for `tutti run --report`: what was called, how often, with how many bytes, for how long,
// and what went to the MPI, and why. Costs nothing when it is off.
#pragma once

#include <cstdint>
#include <string>

#include "core/core.hpp"
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

/// The MPI by name and version ("Open MPI v5.0.11").
std::string library_version();

/// Seconds on a clock that never goes back.
double now() noexcept;
/// Nanoseconds since then.
inline std::uint64_t ns_since(double begin) noexcept {
  return static_cast<std::uint64_t>((now() - begin) * 1e9);
}

/// Counts a call that tutti took. `call` names it ("MPI_Allreduce"), `algorithm` is a static
/// string. Thread-safe.
void count_taken(const char* call, const char* algorithm, std::size_t bytes,
                 double seconds) noexcept;
/// Counts the time that the program has waited in a call that completes requests, by the place in
/// the program that made the call. Thread-safe.
void count_wait(const char* call, const void* site, double seconds) noexcept;
/// Counts a call that went to the MPI. Thread-safe.
void count_passed(const char* call, Reason reason, std::size_t bytes, double seconds) noexcept;
/// What there is to say of a communicator whose calls go to the MPI: one rank, two groups, members
/// of another world, or `otherwise`.
Reason kind_of(MPI_Comm comm, Reason otherwise) noexcept;
/// The reason as a report names it.
inline Reason in_report(Reason reason, MPI_Comm comm) noexcept {
  return state.report && reason == Reason::communicator ? kind_of(comm, reason) : reason;
}

/// Counts the wait that lasts as long as this object.
class WaitTimer {
 public:
  explicit WaitTimer(const char* call) noexcept : call_(call), begin_(state.report ? now() : 0) {}
  ~WaitTimer() {
    if (state.report) [[unlikely]]
      stop();
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  void stop() const noexcept;

  const char* call_;
  double begin_;
};

/// Passes a call on to the MPI: `call_native()`. `bytes`: of the call, where they are known.
template <class NativeFunction>
int pass(const char* call, Reason reason, NativeFunction&& call_native, std::size_t bytes = 0) {
  const NativeCall inside;
  stamp_call();
  if (!state.report) return call_native();
  const double begin = now();
  const int code = call_native();
  count_passed(call, reason, bytes, now() - begin);
  return code;
}

/// Tells `tutti run`, in the file named by TUTTI_RUN_STAMP, what was taken over: the line that it
/// prints at the end. On rank 0.
void leave_note() noexcept;

/// Gathers the counts of all ranks and writes the report where the settings say; `run`: seconds from
/// MPI_Init to MPI_Finalize on this rank. Collective over the world, inside MPI_Finalize.
void write_report(double run) noexcept;

}  // namespace tutti::mpi
