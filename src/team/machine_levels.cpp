#include "team/machine_levels.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti {
namespace {

/// How many of these groups, which begin at `begins`, each part of a level has; 0 where not all
/// have as many.
int groups_in_each_part(const std::vector<int>& begins, int level, const PlacedMembers& all) {
  int each = 0, count = 0;
  for (std::size_t i = 0; i < begins.size(); ++i, ++count) {
    if (i == 0 || all.same_part(begins[i - 1], begins[i], level)) continue;
    if (each != 0 && each != count) return 0;
    each = std::exchange(count, 0);
  }
  return each == 0 || each == count ? count : 0;
}

}  // namespace

MachineLevels::MachineLevels(int rank, const PlacedMembers& all) {
  position_ = static_cast<int>(std::find(all.members.begin(), all.members.end(), rank) -
                               all.members.begin());
  if (!all.in_rank_order) {
    members_ = all.members;
    positions_.resize(members_.size());
    for (std::size_t at = 0; at < members_.size(); ++at)
      positions_[static_cast<std::size_t>(members_[at])] = static_cast<int>(at);
  }
  std::vector<int> groups(all.members.size());
  std::iota(groups.begin(), groups.end(), 0);
  for (int level = 0; level < PlacedMembers::kLevels; ++level) {
    const int each = groups_in_each_part(groups, level, all);
    if (each <= 1) continue;
    radix_[static_cast<std::size_t>(count_++)] = each;
    std::vector<int> joined;
    for (std::size_t i = 0; i < groups.size(); i += static_cast<std::size_t>(each))
      joined.push_back(groups[i]);
    groups = std::move(joined);
  }
}

}  // namespace tutti
