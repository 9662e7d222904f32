// Which members of a team share nodes.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti {

/// The nodes of a team, as this rank sees them. Nodes are numbered by their first members, which
/// are their leaders.
struct NodeMap {
  int nodes = 0;
  int my_node = 0;
  std::vector<int> node_of;   // by member
  std::vector<int> local_of;  // by member: rank within its node
  std::vector<int> first;     // by node: where its members begin in `members`; one more at the end
  std::vector<int> members;   // node by node
  bool consecutive =
      true;  // the members of each node follow each other in the team: members[i] == i

  /// Members of each node where all nodes have as many, else 0.
  int each() const noexcept {
    for (int node = 1; node < nodes; ++node) {
      if (count(node) != count(0)) return 0;
    }
    return count(0);
  }
  int begin(int node) const noexcept { return first[static_cast<std::size_t>(node)]; }
  int count(int node) const noexcept { return begin(node + 1) - begin(node); }
  /// Member `local` of a node; 0 is its leader.
  int member(int node, int local) const noexcept {
    return members[static_cast<std::size_t>(begin(node) + local)];
  }
};

}  // namespace tutti
