// Every member has a block for every other one.
#pragma once

#include <cstddef>

#include "base/task.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Puts block j of `send` to place `rank` of the vector `recv` of member j, for all j; the own
/// block is copied. `bytes`: of a block. The buffers must not overlap. Enters the inbox.
Task exchange_blocks(Collective& c, const void* send, void* recv, std::size_t bytes) noexcept;

}  // namespace tutti
