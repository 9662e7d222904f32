#include "mpi/plugin/packed.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::mpi {

bool Packed::set(const Data& data, bool copied) noexcept {
  size_ = data.bytes;
  if (data.dense() && !copied) [[likely]] {
    bytes_ = data.user;
    return true;
  }
  // One element more, for the one in which a message ends.
  scratch_ = Scratch(data.bytes + data.type->size + 1);
  if (scratch_.data() == nullptr) return false;
  retain(data.type);
  type_ = data.type;
  user_ = data.user;
  count_ = data.count;
  space_ = data.space;
  bytes_ = scratch_.data();
  return true;
}

Status Packed::pack_copy(char* user, std::size_t count, char* packed) const noexcept {
  if (space_ != nullptr) return pack_from(*space_, *type_, user, count, packed);
  mpi::pack(*type_, user, count, packed);
  return Status::success();
}

Status Packed::unpack_copy(const char* packed, std::size_t count, char* user) const noexcept {
  if (space_ != nullptr) return unpack_to(*space_, *type_, packed, count, user);
  mpi::unpack(*type_, packed, count, user);
  return Status::success();
}

Status Packed::unpack_received(std::size_t received) const noexcept {
  if (type_->size == 0) return Status::success();
  const std::size_t whole = std::min(received / type_->size, count_);
  TUTTI_TRY(unpack_copy(bytes_, whole, user_));
  const std::size_t rest = received - whole * type_->size;
  if (rest == 0 || whole == count_) return Status::success();
  // Of the last element only the beginning has come; what follows in memory stays as it is.
  char* const element = user_ + static_cast<std::ptrdiff_t>(whole) * type_->extent;
  char* const spare = bytes_ + size_;
  TUTTI_TRY(pack_copy(element, 1, spare));
  std::memcpy(spare, bytes_ + whole * type_->size, rest);
  return unpack_copy(spare, 1, element);
}

}  // namespace tutti::mpi
