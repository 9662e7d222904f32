// libfabric, opened at run time: the copy that the host MPI has brought, or the system's. Never
// linked, because a second copy in one process breaks the MPI, and the other order of loading
// breaks it too.
#pragma once

#include <rdma/fabric.h>

#include <string>

#include "base/status.hpp"

namespace tutti::ofi {

/// The functions that libfabric exports; all others are reached through its objects.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

/// Opens it once per process and keeps it. `path`: a file to open where no copy is loaded yet;
/// empty: as the system finds it. After the MPI has initialised. On failure `*message` says why in
/// one line.
Status open_library(const std::string& path, const Library** out, std::string* message);

/// The file of the copy that this process has loaded, by the MPI or by open_library(); empty: none.
/// A process that is to communicate with this one opens the same.
std::string loaded_library();

}  // namespace tutti::ofi
