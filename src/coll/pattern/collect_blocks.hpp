// Every member gets its own block of everybody's vector.
#pragma once

#include "base/task.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Of a reduce-scatter: member m's vector of call.send holds a block for every member
/// (own_block.hpp). Puts them into `blocks`, in the order of the members, each as long as the own
/// one. Enters the inbox.
Task collect_blocks(Collective& c, void* blocks) noexcept;

}  // namespace tutti
