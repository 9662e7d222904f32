// An algorithm of a collective: a coroutine, what it is called, and where it can run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"

namespace tutti {

/// A parameter of an algorithm: a whole number.
struct Parameter {
  static constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const char* name = nullptr;  // as in TUTTI_ALG; nullptr: there is none
  std::int64_t initial = 0;    // 0: left to the algorithm
  const char* unit = "";       // "switch": 1 is on, 0 is off
  // Where it can run at all.
  std::int64_t least = 0, most = kMost;
  const char* range = "";  // that in words (static string)
};

/// Values, by position in Algorithm::parameters.
struct Parameters {
  static constexpr int kMost = 3;
  std::int64_t value[kMost] = {0, 0, 0};
};

/// What decides which algorithms may run: equal on all members of the team (uniform dispatch).
struct Shape {
  Coll coll = Coll::barrier;
  std::size_t bytes = 0;          // as in Call
  std::size_t longest_block = 0;  // allgatherv: the longest of the counts
  std::size_t element_bytes = 1;  // of reductions
  int size = 1;                   // members
  bool mapped = true;             // members map each other's memory
  bool layered = false;           // several nodes, some with several members
  int lanes = 0;          // then: members of each node, 0 where they are not as many on each
  bool segments = false;  // the members of a node, or one of each, share a buffer that the network
                          // writes to (team/node_segment.hpp)
  bool scarce = false;    // processors are (Traits::scarce): messages cost more than latencies
  bool bypass = false;    // Traits::bypass
  bool alone = false;     // every member is on a node of its own
  bool mail = true;       // members have mail slots for each other (networks; not without payload)
  bool acks = true;       // members have words for each other, in mail slots or alone
  std::size_t datagram = 0;  // largest datagram of a multicast between the members; 0: none
  bool user_memory = true;   // cross-memory attach, or threads
  bool divisible = true;     // the vector may be cut between elements
  bool commutative = true;
  bool dedicated = false;       // dedicated processors serve the team (src/offload)
  bool fixed_order = false;     // TUTTI_FIXED_ORDER: elements are folded from left to right
  std::size_t block_bytes = 0;  // of shared blocks
  bool operator==(const Shape&) const noexcept = default;
};

/// Static, at the foot of the algorithm's file.
struct Algorithm {
  Coll coll;
  const char* name;
  Task (*run)(Collective& collective, const Parameters& parameters);
  /// nullptr when it can run on this shape, else why not (static string).
  const char* (*restriction_of)(const Shape& shape, const Parameters& parameters);
  /// Stream items that it uses; the same on all members. nullptr: none.
  std::uint64_t (*items)(const Shape& shape, const Parameters& parameters) = nullptr;
  Parameter parameters[Parameters::kMost] = {};
  const char* source;      // paper and section, or what it is known as
  bool casts = false;      // wants Team::open_multicast() on all members before one of them casts
  bool offloaded = false;  // runs elsewhere: takes no place in the team's own order

  Parameters defaults() const noexcept {
    Parameters values;
    for (int i = 0; i < Parameters::kMost; ++i) values.value[i] = parameters[i].initial;
    return values;
  }
  /// nullptr when it can run on this shape with these parameters, else why not (static string).
  const char* restriction(const Shape& shape, const Parameters& values) const noexcept {
    for (int i = 0; i < Parameters::kMost; ++i) {
      const Parameter& parameter = parameters[i];
      if (parameter.name != nullptr &&
          (values.value[i] < parameter.least || values.value[i] > parameter.most))
        return parameter.range;
    }
    return restriction_of(shape, values);
  }
};

}  // namespace tutti
