// Reductions whose vectors cannot be cut (user-defined operators): the members' vectors are read
// whole, one member after the other, and folded in rank order.
#pragma once

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Stream items that fold_whole uses for vectors of `bytes` in blocks of `block`.
std::uint64_t fold_whole_items(std::size_t bytes, std::size_t block, int size) noexcept;

/// Every member publishes `published` bytes from `send`; a member that `reads` folds the bytes
/// [begin, begin + bytes) of all of them, whole, into `out` (which may overlap `send`). From turn()
/// to finish().
Task fold_whole(Collective& c, const void* send, std::size_t published, std::size_t begin,
                std::size_t bytes, bool reads, void* out, std::size_t block);

}  // namespace tutti
