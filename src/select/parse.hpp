// Names of collectives and algorithms, and values of parameters, as TUTTI_ALG and the rules of
// TUTTI_CHOICES have them.
#pragma once

#include <string>
#include <vector>

#include "select/select.hpp"

namespace tutti {

/// Both give what is wrong, in one line that says what would be right; empty when nothing is.
std::string parse_collective(const std::string& text, Coll* out);
/// `values`: "KEY=VALUE" each; what is not given has its default.
std::string parse_choice(Coll coll, const std::string& name, const std::vector<std::string>& values,
                         Choice* out);

}  // namespace tutti
