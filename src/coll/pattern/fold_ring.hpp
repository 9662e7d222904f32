// The first half of an allreduce around a ring: every part of the vectors collects the operands of
// all members on its way round.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"

namespace tutti {

inline int right_of(const Team& t) noexcept { return (t.rank() + 1) % t.size(); }
inline int left_of(const Team& t) noexcept { return (t.rank() + t.size() - 1) % t.size(); }

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
Task fold_around_ring(Team& t, const Call& call, const Ticket& k, const Parts& parts,
                      void* incoming, std::uint64_t* step, Completion* sent) noexcept {
  const int size = t.size(), right = right_of(t), left = left_of(t);
  for (int i = 0; i < size - 1; ++i, ++*step) {
    const int mine = (t.rank() + size - i) % size, theirs = (t.rank() + 2 * size - i - 1) % size;
    co_await put_direct(t, k, right, parts.begin(mine), at(call.recv, parts.begin(mine)),
                        parts.bytes(mine), sent);
    co_await t.inbox().mail(k, right, *step, nullptr);
    co_await t.inbox().mailed(k, left, *step);
    std::byte* const operand = at(call.recv, parts.begin(theirs));
    fold_bytes(t, *call.reduction, at(incoming, parts.begin(theirs)), operand, operand,
               parts.bytes(theirs));
  }
  co_return Status::success();
}

/// Who has part 0 then.
inline int root_of_first_part(const Team& t) noexcept { return t.size() - 1; }

}  // namespace tutti
