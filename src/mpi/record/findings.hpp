// What does not fit together in a roll call.
#pragma once

#include <string>
#include <vector>

#include "mpi/record/roll.hpp"

namespace tutti::roll {

/// A line for each: collectives that have met although they are not the same call, members that a
/// collective waits for, ranks that wait for each other. Only of what the records say for certain
/// at the moment of the look.
std::vector<std::string> find_misfits(const std::vector<RankSeen>& ranks,
                                      const SiteText& site_text);

}  // namespace tutti::roll
