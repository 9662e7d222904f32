// Whether multicast gets through between the nodes of a job: tried once, since networks drop it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/network.hpp"
#include "fabric/nodes/nodes.hpp"

namespace tutti {

/// What datagrams can go by, the best first: names of groups have 112 bits in IPv6, 18 in IPv4.
enum Medium : std::size_t { kOwn, kIp6, kIp4, kMedia };

/// Media as bits.
constexpr unsigned bit_of(std::size_t medium) noexcept { return 1U << medium; }

/// A medium that all ranks have.
struct Candidate {
  NetworkDatagrams* datagrams = nullptr;  // nullptr: some rank has not
  int group = -1;                         // joined for the trial
};
using Candidates = std::array<Candidate, kMedia>;

/// Rank 0's node casts by all candidates (at least one) at once; every other node listens with its
/// first rank. `*heard_by_all`: the media by which all have heard it, as bits, the same on all
/// ranks; where there is none `*message` says in one line where it did not get to. Collective over
/// the bootstrap, whose errors it returns.
Status try_multicast(Bootstrap& bootstrap, const nodes::NodesFabric& fabric, Candidates candidates,
                     unsigned* heard_by_all, std::string* message);

}  // namespace tutti
