// Handles that calls under way still need: the program may free an operator or a type as soon as a
// call with it has begun, and the MPI, which does not know of the call, would take it away.
#pragma once

#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

/// From hold_ to drop_ the handle is good, if the program frees it, too; then the last drop_ frees
/// it. On threads of the program, between MPI_Init and MPI_Finalize; hold_ throws std::bad_alloc.
/// Thread-safe.
void hold_op(MPI_Op op);
void drop_op(MPI_Op op) noexcept;
/// Of predefined types nothing is to be kept.
void hold_type(const TypeInfo& type);
void drop_type(const TypeInfo& type) noexcept;

void install_held(void** handlers) noexcept;

}  // namespace tutti::mpi
