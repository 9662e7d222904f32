// What a node tells another one of its ranks, when the stall report is of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/record/roll.hpp"

namespace tutti::roll {

/// The ranks of one or more nodes, and the texts of the places that their calls come from, by rank
/// and address: an address says nothing elsewhere.
struct NodeRoll {
  std::vector<RankSeen> ranks;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::string> sites;

  /// As SiteText. Empty where it is not known.
  std::string site(const RankSeen& rank, std::uint64_t address) const;
  void add(NodeRoll&& other);
};

/// Reads the records of this node's ranks, twice as read_records() does. `now_ns`: CLOCK_MONOTONIC.
/// Throws std::bad_alloc.
std::vector<std::byte> pack_node(const std::vector<const tutti_record*>& records,
                                 std::uint64_t now_ns);
/// Reads what another node of the same job has packed; its times become those of this one's clock,
/// which was `now_ns` when it came. False, and `*out` is of no use, where the bytes are none such.
/// Throws std::bad_alloc.
bool unpack_node(const std::vector<std::byte>& packed, std::uint64_t now_ns, NodeRoll* out);

}  // namespace tutti::roll
