// Datatypes as tutti needs them: how many bytes of data, where they lie, how they are reduced.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/reduction.hpp"
#include "mpi/plugin/layout.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

inline constexpr int kNotReducible = -1;

/// One datatype. Predefined ones live as long as the plugin; derived ones until they are freed and
/// the last operation on them is over.
struct TypeInfo {
  std::size_t size = 0;       // bytes of data in an element
  std::ptrdiff_t extent = 0;  // from one element to the next
  bool dense = false;         // elements are consecutive bytes, beginning at the address
  bool predefined = false;
  int reduce_type = kNotReducible;  // Type of src/base/reduction.hpp, for predefined operators
  bool logical_ops = true;          // not for Fortran integers and addresses: MPI-4.1 section 6.9.2
  MPI_Datatype handle{};
  Layout::Pointer layout;  // null: a type that tutti cannot take apart; its data are the MPI's
  std::atomic<int> references{1};
};

/// What tutti knows of a type; flattens a derived type on its first use. nullptr when there is no
/// such type. Throws std::bad_alloc: that this rank has no memory must not send its call to the MPI
/// while the others' are tutti's. Thread-safe.
const TypeInfo* find_type(MPI_Datatype type);

/// The same without looking further: nullptr for all but predefined types. Thread-safe.
const TypeInfo* find_predefined_type(MPI_Datatype type) noexcept;

void retain(const TypeInfo* type) noexcept;
void release(const TypeInfo* type) noexcept;

/// `count` elements at `user` to or from consecutive bytes. Thread-safe; never calls the MPI.
void pack(const TypeInfo& type, const void* user, std::size_t count, void* packed) noexcept;
void unpack(const TypeInfo& type, const void* packed, std::size_t count, void* user) noexcept;

/// The kernel for a predefined operator and type, or nullptr when tutti has none or MPI does not
/// define the combination; both are then the MPI's own affair. Thread-safe.
const Reduction* find_predefined_reduction(MPI_Op op, const TypeInfo& type) noexcept;
/// True for MPI_SUM and its like, MPI_REPLACE and MPI_NO_OP included.
bool is_predefined(MPI_Op op) noexcept;

/// Fills the tables. Errors of the MPI must be set to return. `exact`: sums are (make_exact()).
void create_types(bool exact) noexcept;
void destroy_types() noexcept;

}  // namespace tutti::mpi
