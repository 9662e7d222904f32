// What most MPIs do. The header of each ABI includes its numbers, then this, and says what differs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::mpi {

struct UsualAbi {
  /// Fortran's handles of tutti's requests begin here; the MPI has none of these. Where handles are
  /// numbers, it is those of C too.
  static constexpr std::uint32_t kFirstRequest = 0x2c000001;
  /// The MPI has MPIX_Comm_revoke, and `tutti run` preloads what watches it.
  static constexpr bool kRevokes = false;
  /// Asking for partitioned communication for the first time copies the world of the whole job.
  static constexpr bool kPartitionedCopiesWorld = false;
  /// The launcher learns in an exit handler of the MPI's library that a process ends in good order.
  static constexpr bool kEndsInExitHandler = true;

  /// The MPI was told to report failed processes to the program, which then revokes communicators
  /// and goes on: that needs every call.
  static bool is_fault_tolerant() noexcept { return false; }

  /// False for values that can be no datatype of the program's: such calls go to the MPI, which
  /// then reports its own error.
  static bool plausible_type(MPI_Datatype type) noexcept {
    return type != MPI_Datatype{} && type != MPI_DATATYPE_NULL;
  }

  /// False for predefined types about which an MPI of this version of the standard must not be
  /// asked.
  static bool may_ask_about(MPI_Datatype, int) noexcept { return true; }

  /// Sets what MPI_Get_count and MPI_Test_cancelled say. Without a place of its own for that, a
  /// status is the MPI's affair; its functions change MPI_ERROR.
  template <class Native>
  static void set_count(const Native& native, MPI_Status* status, std::size_t bytes,
                        bool cancelled) noexcept {
    const int error = status->MPI_ERROR;
    if (native.Status_set_elements_x != nullptr) {
      native.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
    } else {
      native.Status_set_elements(status, MPI_BYTE, static_cast<int>(bytes));
    }
    native.Status_set_cancelled(status, cancelled);
    status->MPI_ERROR = error;
  }

  /// Asks `find` for the objects whose addresses are handles.
  template <class Find>
  static void find_objects(Find&&) noexcept {}
};

}  // namespace tutti::mpi
