#include "mpi/plugin/data.hpp"

#include <new>

#include "mpi/plugin/native.hpp"

namespace tutti::mpi {
namespace {

// Null is an address for types of absolute addresses, and for nothing.
bool is_buffer(const void* buffer, const Data& data) {
  return (buffer != nullptr || data.count == 0 || !data.type->predefined) && buffer != MPI_IN_PLACE;
}

// Whether this MPI calls a send buffer that is the receive buffer an error, by collective. Written
// inside MPI_Init.
bool alias_is_error[kColls] = {};

}  // namespace

Reason read_data(const void* buffer, MPI_Count count, MPI_Datatype type, Data* out) noexcept {
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

bool elsewhere(const Data& like, const void* buffer, Data* out) noexcept {
  *out = like;
  out->user = const_cast<char*>(static_cast<const char*>(buffer));
  if (!is_buffer(buffer, like)) return false;
  out->locate();
  return true;
}

bool many(const Data& block, int count, Data* out) noexcept {
  *out = block;
  return !__builtin_mul_overflow(block.count, static_cast<std::size_t>(count), &out->count) &&
         !__builtin_mul_overflow(block.bytes, static_cast<std::size_t>(count), &out->bytes);
}

bool aliased(Coll coll, const Data& send, const Data& recv) noexcept {
  // With another type the elements may be others: columns of one matrix, absolute addresses.
  return send.user == recv.user && send.bytes != 0 && send.type == recv.type &&
         send.count == recv.count && alias_is_error[static_cast<int>(coll)];
}

void learn_argument_checks() noexcept {
  int x = 0;
  const auto learn = [](Coll coll, int code) {
    alias_is_error[static_cast<int>(coll)] = code != MPI_SUCCESS;
  };
  // A communicator of its own, so that the program's error handlers are left alone.
  MPI_Comm self = MPI_COMM_NULL;
  if (native.Comm_dup(MPI_COMM_SELF, &self) != MPI_SUCCESS) return;
  native.Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  learn(Coll::reduce, native.Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, self));
  learn(Coll::allreduce, native.Allreduce(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::reduce_scatter_block, native.Reduce_scatter_block(&x, &x, 1, MPI_INT, MPI_SUM, self));
  learn(Coll::allgather, native.Allgather(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  learn(Coll::gather, native.Gather(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::scatter, native.Scatter(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, self));
  learn(Coll::alltoall, native.Alltoall(&x, 1, MPI_INT, &x, 1, MPI_INT, self));
  native.Comm_free(&self);
}

}  // namespace tutti::mpi
