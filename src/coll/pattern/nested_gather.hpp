// Blocks that the members of a node collect along the machine: first each member those of its peers
// in the other packages, then of its peers in other caches all that these have got, and so on. So
// the members of a part share the work of fetching what comes from outside, and that once.
#pragma once

#include <cstddef>

#include "base/task.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Everybody's block of call.bytes goes to call.recv of `root`, or of all where it is -1, through
/// shared blocks of `block` bytes. One stream item for each level and chunk; a chunk of so much of
/// everybody's block that all that a member passes on has room in one.
Task gather_nested_blocks(Collective& c, int root, std::size_t block) noexcept;

}  // namespace tutti
