#include "offload/wire.hpp"

#include <cstring>
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

bool opens_soundly(const Request& request, std::size_t known, std::size_t apps) noexcept {
  const std::size_t longest = sizeof(GroupHeader) + apps * 4;
  const bool here = request.place == Place::cell && request.bytes <= kCellBytes;
  // An APP numbers its groups one after the other.
  return request.group <= known && request.bytes >= sizeof(GroupHeader) &&
         request.bytes <= longest && (here || request.place == Place::memory);
}

bool is_sound(const Request& request, int size) noexcept {
  const auto coll = static_cast<Coll>(request.kind);
  return can_offload(coll) && request.place <= Place::memory && request.root >= 0 &&
         request.root < size &&
         (request.place == Place::memory ||
          fits_cells(coll, static_cast<std::size_t>(request.bytes), size));
}

bool is_sound(const GroupHeader& header, const std::byte* members, std::size_t bytes,
              std::int32_t sender, std::size_t apps) noexcept {
  if (header.size <= 0 || header.rank < 0 || header.rank >= header.size ||
      bytes != static_cast<std::size_t>(header.size) * 4)
    return false;
  for (std::int32_t member = 0; member < header.size; ++member) {
    std::int32_t rank = -1;
    std::memcpy(&rank, members + static_cast<std::size_t>(member) * 4, 4);
    if (rank < 0 || static_cast<std::size_t>(rank) >= apps) return false;
    if (member == header.rank && rank != sender) return false;
  }
  return true;
}

}  // namespace tutti::offload
