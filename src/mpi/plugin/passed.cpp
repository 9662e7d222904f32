// Calls that are the MPI's own in any case: windows, files, and others that may block. They are
// watched because tutti's messages must move on while one blocks, and because a report tells of
// them.
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

#include "mpi/generated/passed_handlers.inc"

}  // namespace

void install_passed(void** handlers) noexcept {
  if (state.messages != nullptr || state.report) install_blocking_handlers(handlers);
}

}  // namespace tutti::mpi
