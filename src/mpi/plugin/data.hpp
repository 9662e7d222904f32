// The elements that an argument of a call describes.
#pragma once

#include <cstddef>

#include "coll/call.hpp"
#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/reason.hpp"
#include "mpi/plugin/staged.hpp"

namespace tutti::mpi {

/// A run of elements in the user's memory.
struct Data {
  const TypeInfo* type = nullptr;
  char* user = nullptr;
  std::size_t count = 0;
  std::size_t bytes = 0;         // of data
  const Space* space = nullptr;  // where they lie; null: the processor reads them

  /// Nothing needs to be packed.
  bool dense() const { return (type->dense && space == nullptr) || count == 0; }
  /// Sets `space`.
  void locate() noexcept {
    space = nullptr;
    if (may_have_spaces()) [[unlikely]]
      space = find_space(*type, user, count);
  }
};

/// Reason::none, or `arguments` when the MPI would call them wrong, or `no_memory`.
Reason read_data(const void* buffer, MPI_Count count, MPI_Datatype type, Data* out) noexcept;

/// The same elements at another address. False when the MPI would call that address wrong.
bool elsewhere(const Data& like, const void* buffer, Data* out) noexcept;

/// `count` blocks of the same type, one after the other; `block` describes one of them. False when
/// there can be no such data.
bool many(const Data& block, int count, Data* out) noexcept;

/// True when both describe the same elements, and this MPI calls that an error in this collective.
/// One that does not look must not be given the call: in rooted ones only the root knows of it.
bool aliased(Coll coll, const Data& send, const Data& recv) noexcept;
/// Finds out what it looks for. Errors of the MPI must be set to return.
void learn_argument_checks() noexcept;

}  // namespace tutti::mpi
