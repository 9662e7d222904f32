// Blocks of all members collected by all, in log2 N rounds for any N: in round r a member hands on
// what it has to the one 2^r before it (Bruck's allgather).
#pragma once

#include <cstddef>
#include <functional>

#include "base/task.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Where the block of a member lies in `vector`; the same on all members.
struct Placement {
  std::size_t begin, bytes;
};
using PlacementOf = std::function<Placement(int member)>;

/// The own block is in `vector`; all are when the task is over. Enters the inbox. The vectors of
/// the others are written straight into, for which the first step is an exchange of keys.
Task collect_direct(Collective& c, void* vector, std::size_t bytes,
                    const PlacementOf& placement) noexcept;

/// The same for small vectors (at most an inbox block in all): through inbox blocks, without that
/// step.
Task collect_eager(Collective& c, void* vector, std::size_t bytes,
                   const PlacementOf& placement) noexcept;

}  // namespace tutti
