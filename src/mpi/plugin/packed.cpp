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
  bytes_ = scratch_.data();
  return true;
}

void Packed::unpack_copy(std::size_t received) const noexcept {
  if (type_->size == 0) return;
  const std::size_t whole = std::min(received / type_->size, count_);
  mpi::unpack(*type_, bytes_, whole, user_);
  const std::size_t rest = received - whole * type_->size;
  if (rest == 0 || whole == count_) return;
  // Of the last element only the beginning has come; what follows in memory stays as it is.
  char* const element = user_ + static_cast<std::ptrdiff_t>(whole) * type_->extent;
  char* const spare = bytes_ + size_;
  mpi::pack(*type_, element, 1, spare);
  std::memcpy(spare, bytes_ + whole * type_->size, rest);
  mpi::unpack(*type_, spare, 1, element);
}

}  // namespace tutti::mpi
