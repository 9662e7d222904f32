// What MPI_Status says of a message. In every receive's way, so it is inlined.
#pragma once

#include <cstddef>

#include "mpi/plugin/native.hpp"
#include "p2p/transfer.hpp"

namespace tutti::mpi {

inline void set_count(MPI_Status* status, std::size_t bytes, bool cancelled) noexcept {
#if defined(TUTTI_ABI_MPICH)
  status->count_lo = static_cast<int>(static_cast<unsigned>(bytes));
  status->count_hi_and_cancelled = static_cast<int>((bytes >> 32) << 1 | cancelled);
#elif defined(TUTTI_ABI_OPENMPI)
  status->ucount = bytes;
  status->cancelled = cancelled;
#else
  // What the standard's status holds of this is the MPI's own affair.
  const int error = status->MPI_ERROR;
  if (native.Status_set_elements_x != nullptr) {
    native.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  } else {
    native.Status_set_elements(status, MPI_BYTE, static_cast<int>(bytes));
  }
  native.Status_set_cancelled(status, cancelled);
  status->MPI_ERROR = error;
#endif
}

/// Sets what a status says besides MPI_ERROR.
inline void set_status(MPI_Status* status, int source, int tag, std::size_t bytes,
                       bool cancelled) noexcept {
  set_count(status, bytes, cancelled);
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
