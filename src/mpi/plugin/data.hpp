// The elements that an argument of a call describes.
#pragma once

#include <cstddef>
#include <new>

#include "coll/call.hpp"
#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/reason.hpp"
#include "mpi/plugin/staged.hpp"

namespace tutti::mpi {

/// A run of elements in the user's memory.
struct Data {
  const TypeInfo* type;
  char* user;
  std::size_t count;
  std::size_t bytes;   // of data
  const Space* space;  // where they lie; null: the processor reads them

  /// Nothing needs to be packed.
  bool dense() const { return (type->dense && space == nullptr) || count == 0; }
  /// Sets `space`.
  void locate() noexcept {
    space = nullptr;
    if (may_have_spaces()) [[unlikely]]
      space = find_space(*type, user, count);
  }
};

/// Null is an address for types of absolute addresses, and for nothing.
inline bool is_buffer(const void* buffer, const Data& data) noexcept {
  return (buffer != nullptr || data.count == 0 || !data.type->predefined) && buffer != MPI_IN_PLACE;
}

/// Reason::none, or `arguments` when the MPI would call them wrong, or `no_memory`.
inline Reason read_data(const void* buffer, MPI_Count count, MPI_Datatype type,
                        Data* out) noexcept {
  if (count < 0) return Reason::arguments;
  try {
    out->type = find_type(type);
  } catch (const std::bad_alloc&) {
    return Reason::no_memory;
  }
  if (out->type == nullptr) return Reason::arguments;
  // Without elements any type will do: other ranks may have described nothing by another one.
  if (out->type->layout == nullptr && count != 0) return Reason::arguments;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  out->count = static_cast<std::size_t>(count);
  if (__builtin_mul_overflow(out->count, out->type->size, &out->bytes)) return Reason::arguments;
  if (!is_buffer(buffer, *out)) return Reason::arguments;
  out->locate();
  return Reason::none;
}

/// The same elements at another address. False when the MPI would call that address wrong.
inline bool elsewhere(const Data& like, const void* buffer, Data* out) noexcept {
  out->type = like.type;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  out->count = like.count;
  out->bytes = like.bytes;
  if (!is_buffer(buffer, like)) return false;
  out->locate();
  return true;
}

/// Makes `count` blocks, one after the other, of one. False when there can be no such data.
inline bool many(Data* data, int count) noexcept {
  return !__builtin_mul_overflow(data->count, static_cast<std::size_t>(count), &data->count) &&
         !__builtin_mul_overflow(data->bytes, static_cast<std::size_t>(count), &data->bytes);
}

/// True when both describe the same elements, and this MPI calls that an error in this collective.
/// One that does not look must not be given the call: in rooted ones only the root knows of it.
bool alias_is_error(Coll coll) noexcept;
inline bool aliased(Coll coll, const Data& send, const Data& recv) noexcept {
  // With another type the elements may be others: columns of one matrix, absolute addresses.
  return send.user == recv.user && send.bytes != 0 && send.type == recv.type &&
         send.count == recv.count && alias_is_error(coll);
}
/// Finds out what it looks for. Errors of the MPI must be set to return.
void learn_argument_checks() noexcept;

}  // namespace tutti::mpi
