// Calls that are the MPI's own in any case: collectives that tutti does not carry out, windows,
// files, and others that may block. They are watched because tutti's messages must move on while
// one blocks, and because a report tells of all that the program called.
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

/// Only of arguments that the MPI has found in order.
std::size_t bytes_of(MPI_Count count, MPI_Datatype type) noexcept {
  MPI_Count size = 0;
  if (native.Type_size_x(type, &size) != MPI_SUCCESS || count < 0 || size < 0) return 0;
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

/// `bytes()` is asked where the arguments mean the same on all ranks: not of two groups, of which
/// one may give nothing but a root.
template <class NativeFunction, class Bytes>
int pass_on(const char* call, MPI_Comm comm, NativeFunction&& call_native, Bytes&& bytes) {
  const NativeCall inside;
  if (!state.report) return call_native();
  const double begin = now();
  const int code = call_native();
  const double seconds = now() - begin;
  const Reason reason = code == MPI_SUCCESS ? kind_of(comm, Reason::not_served) : Reason::arguments;
  const bool tells = code == MPI_SUCCESS && reason != Reason::intercommunicator;
  count_passed(call, reason, tells ? bytes() : 0, seconds);
  return code;
}

#include "mpi/generated/passed_handlers.inc"

}  // namespace

void install_passed(void** handlers) noexcept {
  if (state.messages != nullptr || state.report) install_blocking_handlers(handlers);
  if (state.report) install_other_handlers(handlers);
}

}  // namespace tutti::mpi
