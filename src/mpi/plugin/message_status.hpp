// What MPI_Status says of a message. In every receive's way, so it is inlined.
#pragma once

#include <cstddef>

#include "mpi/plugin/native.hpp"
#include "p2p/transfer.hpp"

namespace tutti::mpi {

/// Sets what a status says besides MPI_ERROR.
inline void set_status(MPI_Status* status, int source, int tag, std::size_t bytes,
                       bool cancelled) noexcept {
  Abi::set_count(native, status, bytes, cancelled);
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
}

/// What a receive or probe has found. `status` may be MPI_STATUS_IGNORE.
inline void set_received(MPI_Status* status, const Receipt& receipt) noexcept {
  if (status != MPI_STATUS_IGNORE)
    set_status(status, receipt.source, receipt.tag, receipt.bytes, receipt.cancelled);
}

/// What one from MPI_PROC_NULL has.
inline void set_nobody(MPI_Status* status) noexcept {
  if (status != MPI_STATUS_IGNORE) set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
}

}  // namespace tutti::mpi
