// The layout of a datatype: which bytes of memory belong to one element, in the order of its type
// map. Knows no MPI, so that it can be tested alone and used by threads that must not call the MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::mpi {

/// An immutable tree that takes memory in proportion to the constructor's arguments, not to the
/// number of its blocks. Thread-safe.
class Layout {
 public:
  using Pointer = std::shared_ptr<const Layout>;
  struct Part {
    std::ptrdiff_t offset;
    Pointer layout;
  };

  /// `count` consecutive bytes.
  static Pointer bytes(std::size_t count);
  /// `count` times `child`, the beginnings `stride` bytes apart.
  static Pointer repeat(std::size_t count, std::ptrdiff_t stride, Pointer child);
  /// The parts one after the other, each at its offset.
  static Pointer sequence(std::vector<Part> parts);

  /// Bytes of data in one element.
  std::size_t size() const noexcept { return size_; }
  /// True when the data are one block; it then begins `offset()` bytes behind the address.
  bool is_block() const noexcept { return kind_ == Kind::bytes; }
  std::ptrdiff_t offset() const noexcept { return shift_; }

  /// Calls visit(offset, rows, bytes, stride) for each part of the element's data in the order of
  /// the type map (`rows` blocks of `bytes`, `stride` apart), `offset` added, until that is false;
  /// then it is.
  template <class Visit>
  bool each_run(std::ptrdiff_t offset, Visit& visit) const {
    offset += shift_;
    switch (kind_) {
      case Kind::bytes:
        return size_ == 0 || visit(offset, std::size_t{1}, size_, std::ptrdiff_t{0});
      case Kind::repeat:
        if (child_->is_block()) return visit(offset, count_, child_->size_, stride_);
        for (std::size_t i = 0; i < count_; ++i) {
          if (!child_->each_run(offset + static_cast<std::ptrdiff_t>(i) * stride_, visit))
            return false;
        }
        return true;
      case Kind::sequence:
        for (const Part& part : parts_) {
          if (!part.layout->each_run(offset + part.offset, visit)) return false;
        }
        return true;
    }
    return true;
  }

  /// Copies the data of the element at `element` to or from size() bytes at `packed`.
  void pack(const void* element, void* packed) const noexcept;
  void unpack(const void* packed, void* element) const noexcept;

 private:
  enum class Kind : unsigned char { bytes, repeat, sequence };

  template <bool kPack>
  char* move(char* element, char* packed) const noexcept;
  template <bool kPack>
  char* move_blocks(char* element, char* packed) const noexcept;

  Kind kind_ = Kind::bytes;
  std::size_t size_ = 0;
  std::ptrdiff_t shift_ = 0;  // of everything below, in bytes
  std::size_t count_ = 0;
  std::ptrdiff_t stride_ = 0;
  Pointer child_;
  std::vector<Part> parts_;
};

}  // namespace tutti::mpi
