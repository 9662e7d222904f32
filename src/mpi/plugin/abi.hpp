// The ABI that this plugin is built for, and what differs between ABIs beyond numbers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {
#if defined(TUTTI_ABI_MPICH)
#include "mpi/abi/mpich.h"
#elif defined(TUTTI_ABI_STANDARD)
#include "mpi/abi/standard.h"
#elif defined(TUTTI_ABI_OPENMPI)
#include "mpi/abi/openmpi.h"
#else
#error "define TUTTI_ABI_MPICH, TUTTI_ABI_STANDARD or TUTTI_ABI_OPENMPI"
#endif
}

namespace tutti::mpi {

/// True where the MPI was told to report failed processes to the program (Open MPI: --with-ft),
/// which then revokes communicators and goes on: that needs every call.
inline bool is_fault_tolerant() noexcept {
#if defined(TUTTI_ABI_OPENMPI)
  const char* text = std::getenv("OMPI_MCA_mpi_ft_enable");
  return text != nullptr && std::strchr("1tTyY", text[0]) != nullptr && text[0] != '\0';
#else
  return false;
#endif
}

/// A handle as a key for hash tables.
inline std::uintptr_t key(int handle) noexcept { return static_cast<unsigned>(handle); }
inline std::uintptr_t key(const void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// False for values that can be no datatype of the program's: such calls go to the MPI, which then
/// reports its own error.
inline bool plausible_type(MPI_Datatype type) noexcept {
#if defined(TUTTI_ABI_MPICH)
  const unsigned bits = static_cast<unsigned>(type);
  return (bits & 0x3c000000u) == 0x0c000000u && (bits >> 30) != 0;
#else
  return type != nullptr && type != MPI_DATATYPE_NULL;
#endif
}

}  // namespace tutti::mpi
