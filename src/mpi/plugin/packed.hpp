// The data of a message: in the user's memory, or packed where they do not lie there in one piece.
#pragma once

#include <cstddef>
#include <utility>

#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/scratch.hpp"

namespace tutti::mpi {

/// What tutti sends from or receives into for one run of elements. Holds its type while packed.
/// Belongs to one thread at a time.
class Packed {
 public:
  Packed() = default;
  Packed(Packed&& other) noexcept { swap(other); }
  Packed& operator=(Packed&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Packed() {
    if (type_ != nullptr) release(type_);
  }

  /// For these data; `copied`: a copy also where they are in one piece. False: no memory.
  bool set(const Data& data, bool copied = false) noexcept;
  /// Lets the type and the copy go.
  void clear() noexcept {
    if (type_ != nullptr) [[unlikely]]
      *this = Packed();
    bytes_ = nullptr;
    size_ = 0;
  }
  char* bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return size_; }
  /// Whether bytes() are the user's own memory.
  bool in_place() const noexcept { return scratch_.data() == nullptr; }

  /// Before they are sent; nothing to do where they are in one piece.
  Status pack() const noexcept {
    if (scratch_.data() != nullptr) [[unlikely]]
      return pack_copy(user_, count_, bytes_);
    return Status::success();
  }
  /// After `received` bytes have come, which may be fewer than there is room for, and end within an
  /// element.
  Status unpack(std::size_t received) const noexcept {
    if (scratch_.data() != nullptr) [[unlikely]]
      return unpack_received(received);
    return Status::success();
  }

 private:
  void swap(Packed& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(user_, other.user_);
    std::swap(count_, other.count_);
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(space_, other.space_);
    std::swap(scratch_, other.scratch_);
  }
  Status pack_copy(char* user, std::size_t count, char* packed) const noexcept;
  Status unpack_copy(const char* packed, std::size_t count, char* user) const noexcept;
  Status unpack_received(std::size_t received) const noexcept;

  const TypeInfo* type_ = nullptr;  // held; null where nothing is packed
  char* user_ = nullptr;
  std::size_t count_ = 0;
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
  const Space* space_ = nullptr;  // of the user's memory
  Scratch scratch_;
};

}  // namespace tutti::mpi
