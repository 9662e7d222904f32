// Takes datatypes apart with the MPI's own query functions.
#pragma once

#include "mpi/plugin/layout.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

/// The layout of one element, or nullptr when the MPI does not tell. Calls the MPI. Throws
/// std::bad_alloc.
Layout::Pointer flatten(MPI_Datatype type);

}  // namespace tutti::mpi
