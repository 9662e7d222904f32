// The MPI's own functions. Filled once when the plugin is attached, constant afterwards.
#pragma once

#include "mpi/plugin/abi.hpp"
#include "mpi/plugin_api.h"

namespace tutti::mpi {

#include "mpi/generated/native.inc"

extern Native native;

/// Looks up every function (and predefined object). Returns the name of a required one that this
/// MPI lacks, or nullptr when all are there.
const char* load_native(const tutti_preload& preload) noexcept;

}  // namespace tutti::mpi
