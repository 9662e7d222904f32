#include "team/cell_tree.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace tutti {
namespace {

/// What members of one part of the machine have alike, from the smallest parts to the largest.
using Part = std::array<std::int16_t, 3>;
constexpr int kLevels = PlacedMembers::kLevels;

Part part_of(const Locality& place, int level) noexcept {
  Part part{place.package, place.numa, place.cache};
  std::fill(part.begin() + (kLevels - 1 - level), part.end(), std::int16_t{-1});
  return part;
}

}  // namespace

PlacedMembers PlacedMembers::by_rank(int size) {
  PlacedMembers all;
  all.members.resize(static_cast<std::size_t>(size));
  std::iota(all.members.begin(), all.members.end(), 0);
  all.places.resize(all.members.size());
  return all;
}

PlacedMembers PlacedMembers::by_locality(std::vector<Locality> places) {
  PlacedMembers all = by_rank(static_cast<int>(places.size()));
  // Parts are ordered by their first members, so that rank 0 comes first, and all stay in rank
  // order where the ranks of each part follow each other.
  std::map<std::pair<int, Part>, int> first;
  std::vector<std::array<int, kLevels>> keys;
  for (const int rank : all.members) {
    std::array<int, kLevels> key{};
    for (int level = kLevels - 2; level >= 0; --level) {
      const Part part = part_of(places[static_cast<std::size_t>(rank)], level);
      key[static_cast<std::size_t>(kLevels - 2 - level)] =
          first.try_emplace({level, part}, rank).first->second;
    }
    key.back() = rank;
    keys.push_back(key);
  }
  std::sort(all.members.begin(), all.members.end(), [&keys](int a, int b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    all.places[i] = places[static_cast<std::size_t>(all.members[i])];
  all.in_rank_order = std::is_sorted(all.members.begin(), all.members.end());
  return all;
}

bool PlacedMembers::same_part(int a, int b, int level) const noexcept {
  return part_of(places[static_cast<std::size_t>(a)], level) ==
         part_of(places[static_cast<std::size_t>(b)], level);
}

CellTree::CellTree(int rank, int degree, const PlacedMembers& all) : rank_(rank) {
  const auto size = static_cast<int>(all.members.size());
  position_ = static_cast<int>(std::find(all.members.begin(), all.members.end(), rank) -
                               all.members.begin());
  if (!all.in_rank_order) {
    positions_.resize(all.members.size());
    for (int at = 0; at < size; ++at)
      positions_[static_cast<std::size_t>(all.members[static_cast<std::size_t>(at)])] = at;
  }
  std::vector<int> groups(all.members.size());  // where each begins: at first every member is one
  std::iota(groups.begin(), groups.end(), 0);
  for (int level = 0; level < kLevels; ++level) {
    std::vector<int> joined;
    for (auto group = groups.begin(); group != groups.end();) {
      const auto next = std::find_if(group, groups.end(), [&](int position) {
        return !all.same_part(*group, position, level);
      });
      joined.push_back(*group);
      join({group, next}, next == groups.end() ? size : *next, degree, all);
      group = next;
    }
    groups = std::move(joined);
  }
}

/// Makes one of the groups that begin at these positions, of which the last ends before `end`: in
/// each step, of degree + 1 groups the first one gets the others as children.
void CellTree::join(std::vector<int> firsts, int end, int degree, const PlacedMembers& all) {
  const auto member = [&all](int position) {
    return all.members[static_cast<std::size_t>(position)];
  };
  while (firsts.size() > 1) {
    std::vector<int> left;
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      const std::size_t order = i % (static_cast<std::size_t>(degree) + 1);
      if (order == 0) {
        left.push_back(firsts[i]);
        continue;
      }
      if (firsts[i] == position_) parent_ = member(left.back());
      if (left.back() != position_) continue;
      const int after = i + 1 < firsts.size() ? firsts[i + 1] : end;
      children_.push_back({member(firsts[i]), firsts[i], after});
    }
    firsts = std::move(left);
  }
}

int CellTree::towards(int root) const noexcept {
  if (root == rank_) return -1;
  const int position = positions_.empty() ? root : positions_[static_cast<std::size_t>(root)];
  for (const Child& child : children_) {
    if (position >= child.begin && position < child.end) return child.member;
  }
  return parent_;
}

}  // namespace tutti
