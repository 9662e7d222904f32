// MPICH and its relatives (Intel MPI, MVAPICH, Cray MPICH).
#pragma once

#include "mpi/generated/abi_mpich.hpp"

#include "mpi/abi/usual.hpp"

namespace tutti::mpi {

struct Abi : UsualAbi {
  // A handle is a number that says of what kind it is. kFirstRequest is a request with invalid
  // "kind" bits: one that leaks into the MPI gives a clean error there.

  static bool plausible_type(MPI_Datatype type) noexcept {
    const unsigned bits = static_cast<unsigned>(type);
    return (bits & 0x3c000000u) == 0x0c000000u && (bits >> 30) != 0;
  }

  /// MPICH ends the program that asks about a predefined type that it does not know. MPI-5 brought
  /// MPI_LOGICAL1 and its siblings, whose numbers are the last.
  static bool may_ask_about(MPI_Datatype type, int version) noexcept {
    constexpr int kNumbersBeforeMpi5 = 0x47;
    return version >= 5 || (type & 0xff) < kNumbersBeforeMpi5;
  }

  template <class Native>
  static void set_count(const Native&, MPI_Status* status, std::size_t bytes,
                        bool cancelled) noexcept {
    status->count_lo = static_cast<int>(static_cast<unsigned>(bytes));
    status->count_hi_and_cancelled = static_cast<int>((bytes >> 32) << 1 | cancelled);
  }
};

}  // namespace tutti::mpi
