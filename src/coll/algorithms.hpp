// All algorithms, by name.
#pragma once

#include "coll/algorithm.hpp"

namespace tutti::algorithm {

#define TUTTI_ALGORITHM(name) extern const Algorithm name;
#include "coll/algorithms.inc"

}  // namespace tutti::algorithm
