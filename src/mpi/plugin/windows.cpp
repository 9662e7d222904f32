// Windows and files: the MPI's own, but while some are open other ranks may need this one's
// progress at any time, so waits in tutti go on as the MPI's own do (Host::host_serves). They are
// counted.
#include "mpi/plugin/windows.hpp"

#include <atomic>

#include "mpi/plugin/report.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

// Open ones of this process. Written by whoever opens and closes, read by whoever waits; stale
// values only cost time.
std::atomic<int> open_now{0};

int opened(int code) noexcept {
  if (code == MPI_SUCCESS) open_now.fetch_add(1, std::memory_order_relaxed);
  return code;
}

int closed(int code) noexcept {
  if (code == MPI_SUCCESS) open_now.fetch_sub(1, std::memory_order_relaxed);
  return code;
}

int handle_Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                      MPI_Win* win) {
  return opened(pass("MPI_Win_create", Reason::one_sided,
                     [&] { return native.Win_create(base, size, unit, info, comm, win); }));
}

int handle_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base,
                        MPI_Win* win) {
  return opened(pass("MPI_Win_allocate", Reason::one_sided,
                     [&] { return native.Win_allocate(size, unit, info, comm, base, win); }));
}

int handle_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base,
                               MPI_Win* win) {
  return opened(pass("MPI_Win_allocate_shared", Reason::one_sided, [&] {
    return native.Win_allocate_shared(size, unit, info, comm, base, win);
  }));
}

int handle_Win_create_c(void* base, MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                        MPI_Win* win) {
  return opened(pass("MPI_Win_create", Reason::one_sided,
                     [&] { return native.Win_create_c(base, size, unit, info, comm, win); }));
}

int handle_Win_allocate_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void* base,
                          MPI_Win* win) {
  return opened(pass("MPI_Win_allocate", Reason::one_sided,
                     [&] { return native.Win_allocate_c(size, unit, info, comm, base, win); }));
}

int handle_Win_allocate_shared_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                 void* base, MPI_Win* win) {
  return opened(pass("MPI_Win_allocate_shared", Reason::one_sided, [&] {
    return native.Win_allocate_shared_c(size, unit, info, comm, base, win);
  }));
}

int handle_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return opened(pass("MPI_Win_create_dynamic", Reason::one_sided,
                     [&] { return native.Win_create_dynamic(info, comm, win); }));
}

int handle_Win_free(MPI_Win* win) {
  return closed(pass("MPI_Win_free", Reason::one_sided, [&] { return native.Win_free(win); }));
}

int handle_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  return opened(pass("MPI_File_open", Reason::files,
                     [&] { return native.File_open(comm, name, mode, info, file); }));
}

int handle_File_close(MPI_File* file) {
  return closed(pass("MPI_File_close", Reason::files, [&] { return native.File_close(file); }));
}

}  // namespace

bool serves_others(void*) noexcept { return open_now.load(std::memory_order_relaxed) > 0; }

void install_windows(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Win_create);
  TUTTI_INSTALL(Win_allocate);
  TUTTI_INSTALL(Win_allocate_shared);
  TUTTI_INSTALL(Win_create_c);
  TUTTI_INSTALL(Win_allocate_c);
  TUTTI_INSTALL(Win_allocate_shared_c);
  TUTTI_INSTALL(Win_create_dynamic);
  TUTTI_INSTALL(Win_free);
  TUTTI_INSTALL(File_open);
  TUTTI_INSTALL(File_close);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
