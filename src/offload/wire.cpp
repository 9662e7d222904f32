#include "offload/wire.hpp"

#include <limits>

namespace tutti::offload {

std::size_t sent_bytes(const Call& call, int rank, int size) noexcept {
  switch (call.coll) {
    case Coll::barrier:
      return 0;
    case Coll::bcast:
      return rank == call.root ? call.bytes : 0;
    case Coll::alltoall:
      return call.bytes * static_cast<std::size_t>(size);
    default:
      return call.bytes;
  }
}

std::size_t received_bytes(const Call& call, int rank, int size) noexcept {
  switch (call.coll) {
    case Coll::barrier:
      return 0;
    case Coll::bcast:
      return rank == call.root ? 0 : call.bytes;
    case Coll::reduce:
      return rank == call.root ? call.bytes : 0;
    case Coll::allgather:
    case Coll::alltoall:
      return call.bytes * static_cast<std::size_t>(size);
    default:
      return call.bytes;
  }
}

bool fits_cells(Coll coll, std::size_t bytes, int size) noexcept {
  const bool blocks = coll == Coll::allgather || coll == Coll::alltoall;
  return bytes <= kCellBytes / (blocks ? static_cast<std::size_t>(size) : 1);
}

bool can_offload(Coll coll) noexcept {
  switch (coll) {
    case Coll::barrier:
    case Coll::bcast:
    case Coll::reduce:
    case Coll::allreduce:
    case Coll::allgather:
    case Coll::alltoall:
      return true;
    default:
      return false;
  }
}

}  // namespace tutti::offload
