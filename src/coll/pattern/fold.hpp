// Folding operands in rank order, element by element from left to right.
#pragma once

#include <cstddef>

#include "base/reduction.hpp"
#include "coll/pattern/move.hpp"
#include "team/team.hpp"

namespace tutti {

/// Folds operands given one by one, from left to right, into `out`. The first fold takes the first
/// two operands directly, so that nothing is copied unless there is only one.
class Folder {
 public:
  Folder(Team& team, const Reduction& reduction, void* out, std::size_t bytes) noexcept
      : team_(team),
        reduction_(reduction),
        out_(out),
        bytes_(bytes),
        count_(bytes / reduction.element_bytes) {}

  /// `operand` must not be overwritten by `out` before it has been given, save that the first
  /// operand may be `out` itself.
  void operator()(const void* operand) noexcept {
    if (accumulated_ == nullptr) {
      accumulated_ = operand;
      return;
    }
    team_.fabric().spend(Work::reduce, bytes_);
    if (team_.carries(bytes_)) reduction_.fold(accumulated_, operand, out_, count_, reduction_);
    accumulated_ = out_;
  }

  /// After the last operand.
  void finish() noexcept {
    if (accumulated_ != nullptr) place(team_, out_, accumulated_, bytes_);
  }

 private:
  Team& team_;
  const Reduction& reduction_;
  void* out_;
  std::size_t bytes_;
  std::size_t count_;
  const void* accumulated_ = nullptr;
};

/// out = left (op) right for `bytes` of whole elements.
inline void fold_bytes(Team& t, const Reduction& reduction, const void* left, const void* right,
                       void* out, std::size_t bytes) noexcept {
  t.fabric().spend(Work::reduce, bytes);
  if (t.carries(bytes))
    reduction.fold(left, right, out, bytes / reduction.element_bytes, reduction);
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
