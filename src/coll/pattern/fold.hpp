// Folding operands in rank order, element by element from left to right.
#pragma once

#include <cstddef>

#include "coll/pattern/move.hpp"

namespace tutti {

/// Folds operands given one by one, from left to right, into `out`. The first fold takes the first
/// two operands directly, so that nothing is copied unless there is only one.
class Folder {
 public:
  Folder(Collective& c, void* out, std::size_t bytes) noexcept : c_(c), out_(out), bytes_(bytes) {}

  /// `operand` must not be overwritten by `out` before it has been given, save that the first
  /// operand may be `out` itself.
  void operator()(const void* operand) noexcept {
    if (accumulated_ == nullptr) {
      accumulated_ = operand;
      return;
    }
    c_.fold(accumulated_, operand, out_, bytes_);
    accumulated_ = out_;
  }

  /// After the last operand.
  void finish() noexcept {
    if (accumulated_ != nullptr) c_.place(out_, accumulated_, bytes_);
  }

 private:
  Collective& c_;
  void* out_;
  std::size_t bytes_;
  const void* accumulated_ = nullptr;
};

/// Folds vector_of(0) to vector_of(count - 1), which are all there, into `out`: from left to right,
/// or at once. `out` may be vector_of(0). `count`: 1 or more.
template <class VectorOf>
void fold_vectors(Collective& c, int count, const VectorOf& vector_of, void* out,
                  std::size_t bytes) noexcept {
  if (c.at_once()) return c.fold_at_once(count, vector_of, out, bytes);
  Folder fold(c, out, bytes);
  for (int member = 0; member < count; ++member) fold(vector_of(member));
  fold.finish();
}

/// How a vector of whole elements is divided among `parts` members: [begin(i), begin(i + 1)).
class Partition {
 public:
  Partition(std::size_t bytes, std::size_t element_bytes, int parts) noexcept
      : bytes_(bytes), element_(element_bytes), parts_(static_cast<std::size_t>(parts)) {}

  std::size_t begin(int part) const noexcept {
    const std::size_t elements = bytes_ / element_;
    return elements * static_cast<std::size_t>(part) / parts_ * element_;
  }
  std::size_t bytes(int part) const noexcept { return begin(part + 1) - begin(part); }

 private:
  std::size_t bytes_;
  std::size_t element_;
  std::size_t parts_;
};

/// The largest multiple of the element size that is not above `bytes`, at least one element.
inline std::size_t whole_elements(std::size_t bytes, std::size_t element_bytes) noexcept {
  return bytes < element_bytes ? element_bytes : bytes / element_bytes * element_bytes;
}

}  // namespace tutti
