// Open MPI 4 and 5.
#pragma once

#include <cstdlib>
#include <cstring>

#include "mpi/generated/abi_openmpi.hpp"

#include "mpi/abi/usual.hpp"

namespace tutti::mpi {

struct Abi : UsualAbi {
  static constexpr std::uint32_t kFirstRequest = 0x40000000;
  static constexpr bool kRevokes = true;
  static constexpr bool kPartitionedCopiesWorld = true;
  static constexpr bool kEndsInExitHandler = false;

  /// --with-ft
  static bool is_fault_tolerant() noexcept {
    const char* text = std::getenv("OMPI_MCA_mpi_ft_enable");
    return text != nullptr && std::strchr("1tTyY", text[0]) != nullptr && text[0] != '\0';
  }

  template <class Native>
  static void set_count(const Native&, MPI_Status* status, std::size_t bytes,
                        bool cancelled) noexcept {
    status->ucount = bytes;
    status->cancelled = cancelled;
  }

  /// One that this version lacks stays null and equals no handle.
  template <class Find>
  static void find_objects(Find&& find) noexcept {
#define TUTTI_FIND(symbol) tutti_symbols.symbol = find(#symbol);
    TUTTI_SYMBOLS(TUTTI_FIND)
#undef TUTTI_FIND
  }
};

}  // namespace tutti::mpi
