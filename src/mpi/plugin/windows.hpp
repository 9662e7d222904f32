// Windows and files that are open, which others reach through this rank's progress.
#pragma once

namespace tutti::mpi {

/// Host::host_serves.
bool serves_others(void*) noexcept;
/// After install_messages(), whose handlers of the same functions it replaces.
void install_windows(void** handlers) noexcept;

}  // namespace tutti::mpi
