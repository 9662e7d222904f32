// The first half of an allreduce around a ring: every part of the vectors collects the operands of
// all members on its way round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coll/collective.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"

namespace tutti {

inline int right_of(const Collective& c) noexcept { return (c.rank() + 1) % c.size(); }
inline int left_of(const Collective& c) noexcept { return (c.rank() + c.size() - 1) % c.size(); }

/// Parts of a vector that are equal but for the last ones, which may be shorter or empty.
class EqualParts {
 public:
  EqualParts(std::size_t bytes, std::size_t element_bytes, int parts) noexcept
      : bytes_(bytes), most_(most(bytes, element_bytes, parts)) {}
  static std::size_t most(std::size_t bytes, std::size_t element_bytes, int parts) noexcept {
    const std::size_t elements = bytes / element_bytes, count = static_cast<std::size_t>(parts);
    return (elements + count - 1) / count * element_bytes;
  }
  std::size_t most() const noexcept { return most_; }
  std::size_t begin(int part) const noexcept {
    return std::min(bytes_, static_cast<std::size_t>(part) * most_);
  }
  std::size_t bytes(int part) const noexcept { return begin(part + 1) - begin(part); }

 private:
  std::size_t bytes_;
  std::size_t most_;
};

/// Afterwards part (rank + 1) % size of call.recv, which held the own operands, is complete here.
/// The member to the right has invited (kInvited) to memory of the vector's size; `incoming` is
/// that of this one. `*step`: of the mail, from kArrived on; `sent` counts what is put out of
/// call.recv.
template <class Parts>
Task fold_around_ring(Collective& c, const Parts& parts, void* incoming, std::uint64_t* step,
                      Completion* sent) noexcept {
  const int size = c.size(), right = right_of(c), left = left_of(c);
  for (int i = 0; i < size - 1; ++i, ++*step) {
    const int mine = (c.rank() + size - i) % size, theirs = (c.rank() + 2 * size - i - 1) % size;
    co_await put_direct(c, right, parts.begin(mine), at(c.call.recv, parts.begin(mine)),
                        parts.bytes(mine), sent);
    co_await c.mail(right, *step);
    co_await c.mailed(left, *step);
    std::byte* const operand = at(c.call.recv, parts.begin(theirs));
    c.fold(at(incoming, parts.begin(theirs)), operand, operand, parts.bytes(theirs));
  }
  co_return Status::success();
}

/// Who has part 0 then.
inline int root_of_first_part(const Collective& c) noexcept { return c.size() - 1; }

}  // namespace tutti
