// Scratch memory for packed data: recycled, because packing happens on every call with such types.
#pragma once

#include <cstddef>
#include <utility>

namespace tutti::mpi {

/// A block of at least the size asked for, aligned to 64 bytes; given back when it goes out of
/// scope. Thread-safe as a class; a value belongs to one thread.
class Scratch {
 public:
  Scratch() = default;
  /// `data()` is null when there is no memory.
  explicit Scratch(std::size_t bytes);
  Scratch(Scratch&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Scratch();

  char* data() const noexcept { return data_; }

 private:
  char* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace tutti::mpi
