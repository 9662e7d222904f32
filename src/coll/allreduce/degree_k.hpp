// The degree-k allreduce, which is a barrier too where there is no data.
#pragma once

#include "coll/algorithm.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

struct DegreeK {
  std::int64_t degree = 3;  // children that a member folds in a step of the reduction
  std::int64_t down = 1;    // children of a step of the broadcast, where 1 is the binomial tree
};
inline constexpr ParameterList kDegreeK = parameters_of<DegreeK>(
    {{&DegreeK::degree, "degree", "members", 1, 15, "degree: 1, 3, 7 or 15"},
     {&DegreeK::down, "down", "members", 1, Parameter::kMostMembers, "down: 1 to 1048576"}});

Task allreduce_degree_k(Collective& c, DegreeK p);
inline const char* fits_degree_k(const Shape& s, DegreeK p) {
  return fits_inbox_block(s, p.degree);
}

}  // namespace tutti
