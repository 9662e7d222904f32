// Recursive doubling between nodes, for any number of them and in rank order.
#pragma once

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// Folds the vectors of all members into `vector` (own operand in, result out; the same bits
/// everywhere). Enters the inbox; the caller finishes the ticket. Vectors of up to an inbox block
/// go through inbox blocks, longer ones straight into temporary memory of the receiver, for which
/// the first step is an exchange of keys.
Task double_up(Collective& c, void* vector, std::size_t bytes) noexcept;

}  // namespace tutti
