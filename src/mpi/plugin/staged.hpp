// Packing and unpacking where the data may lie in a GPU's memory.
#pragma once

#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/space.hpp"

namespace tutti::mpi {

/// Where `count` elements at `user` lie: nullptr when the processor reads all of them. Those of a
/// type with a base address lie in one place; under MPI_BOTTOM every block of the first element is
/// asked.
const Space* find_space(const TypeInfo& type, const char* user, std::size_t count) noexcept;

/// pack() and unpack() (datatype.hpp) of elements that find_space found in `space`. Gaps are never
/// written. On threads of the program only.
Status pack_from(const Space& space, const TypeInfo& type, char* user, std::size_t count,
                 char* packed) noexcept;
Status unpack_to(const Space& space, const TypeInfo& type, const char* packed, std::size_t count,
                 char* user) noexcept;

/// `bytes` as they are.
Status copy_bytes(const Space& space, void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace tutti::mpi
