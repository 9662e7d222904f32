// An algorithm of a collective: a coroutine, what it is called, and where it can run.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/collective.hpp"

namespace tutti {

class Team;
struct Traits;

/// A parameter of an algorithm: a whole number. Made by parameters_of().
struct Parameter {
  static constexpr std::int64_t kMost = std::int64_t{1} << 40;
  static constexpr std::int64_t kMostMembers = 1 << 20;
  const char* name = nullptr;  // as in TUTTI_ALG; nullptr: there is none
  std::int64_t initial = 0;    // 0: left to the algorithm
  const char* unit = "";       // "switch": 1 is on, 0 is off
  // Where it can run at all.
  std::int64_t least = 0, most = kMost;
  const char* range = "";  // that in words (static string)
};

/// Values, in the order of Algorithm::parameters: for what reads and writes them as text. An
/// algorithm gets them by name, in a struct of its own.
struct Parameters {
  static constexpr int kMost = 3;
  std::int64_t value[kMost] = {0, 0, 0};

  template <class Named>
  Named as() const noexcept {
    Named named;
    static_assert(sizeof named <= sizeof value && std::is_trivially_copyable_v<Named>);
    std::memcpy(static_cast<void*>(&named), value, sizeof named);
    return named;
  }
};
using ParameterList = std::array<Parameter, Parameters::kMost>;

/// What is said of a member of `Named`, a struct of nothing but std::int64_t, each with the default
/// as its initializer.
template <class Named>
struct About {
  std::int64_t Named::*member;
  const char* name;
  const char* unit;
  std::int64_t least = 0, most = Parameter::kMost;
  const char* range = "";
};

/// The parameters of an algorithm, whose function takes a `Named`. Each member is named once.
template <class Named, std::size_t count>
consteval ParameterList parameters_of(const About<Named> (&all)[count]) {
  static_assert(sizeof(Named) == count * sizeof(std::int64_t), "a parameter for each member");
  using Values = std::array<std::int64_t, count>;
  ParameterList list;
  for (const About<Named>& about : all) {
    Named probe = std::bit_cast<Named>(Values{});
    probe.*about.member = 1;
    const Values places = std::bit_cast<Values>(probe);
    for (std::size_t i = 0; i < count; ++i) {
      if (places[i] == 0) continue;
      if (list[i].name != nullptr) throw "two parameters for one member";
      list[i] = {about.name, Named{}.*about.member, about.unit, about.least, about.most,
                 about.range};
    }
  }
  return list;
}

namespace detail {

template <auto function>
struct Typed;
template <class Result, class On, Result (*function)(On)>
struct Typed<function> {
  static Result call(On on, const Parameters&) { return function(on); }
};
template <class Result, class On, class Parameter, Result (*function)(On, Parameter)>
struct Typed<function> {
  static Result call(On on, const Parameters& p) { return function(on, p.as<Parameter>()); }
};

}  // namespace detail

/// A function of an algorithm for its descriptor: one of the shape or the collective alone, or also
/// of the algorithm's parameters, by value.
template <auto function>
inline constexpr auto with_parameters = &detail::Typed<function>::call;

/// Members on nodes, as many on each.
struct EvenLayout {
  int nodes = 1;
  int each = 1;
};

/// What decides which algorithms may run: equal on all members of the team (uniform dispatch).
struct Shape {
  Coll coll = Coll::barrier;
  std::size_t bytes = 0;          // as in Call
  std::size_t longest_block = 0;  // allgatherv, reduce_scatter: the longest of the counts
  std::size_t element_bytes = 1;  // of reductions
  int size = 1;                   // members
  bool mapped = true;             // members map each other's memory
  bool hierarchical = false;      // several nodes, some with several members
  int lanes = 0;                // then: members of each node, 0 where they are not as many on each
  int levels = 1;               // of the machine, that divide the members of a node evenly
  int nearest = 1;              // members of one part of the smallest of these
  bool levels_in_order = true;  // ... and in the order of their ranks
  bool segments = false;  // the members of a node, or one of each, share a buffer that the network
                          // writes to (team/node_segment.hpp)
  bool scarce = false;    // processors are (Traits::scarce): messages cost more than latencies
  bool bypass = false;    // Traits::bypass
  bool alone = false;     // every member is on a node of its own
  bool everybody = false;  // then: any two members may send each other letters
  bool mail = true;       // members have mail slots for each other (networks; not without payload)
  bool acks = true;       // members have words for each other, in mail slots or alone
  std::size_t datagram = 0;  // largest datagram of a multicast between the members; 0: none
  bool user_memory = true;   // cross-memory attach, or threads
  bool divisible = true;     // the vector may be cut between elements
  bool commutative = true;
  bool dedicated = false;       // dedicated processors serve the team (src/offload)
  bool waits = false;           // ... and its calls are blocking ones
  bool fixed_order = false;     // TUTTI_FIXED_ORDER: elements are folded from left to right
  bool at_once = false;         // all operands of an element are folded at once (Reduction::sum)
  std::size_t block_bytes = 0;  // of shared blocks
  bool hosted = false;          // the host runs these calls itself where they are left to it

  /// Of all collectives of a team: what its members and its fabric say. `fixed_order`: as above.
  static Shape of(Team& team, bool fixed_order) noexcept;
  /// Of a team that a real job would make of such members, over a fabric of these traits.
  static Shape of(const EvenLayout& layout, const Traits& traits, std::size_t block_bytes) noexcept;
  /// What the members of a node know of where each of them runs.
  void add_levels(const MachineLevels& machine) noexcept;
  /// Of one call of theirs.
  Shape with(const Call& call) const noexcept;
  bool operator==(const Shape&) const noexcept = default;
};

/// Static, at the foot of the algorithm's file.
struct Algorithm {
  Coll coll;
  const char* name;
  /// nullptr: the host runs the whole call itself (`mpi`, select/host.cpp).
  Task (*run)(Collective& collective, const Parameters& parameters);
  /// nullptr when it can run on this shape, else why not (static string).
  const char* (*restriction_of)(const Shape& shape, const Parameters& parameters);
  /// Stream items that it uses; the same on all members. nullptr: none.
  std::uint64_t (*items)(const Shape& shape, const Parameters& parameters) = nullptr;
  ParameterList parameters = {};
  const char* source;                 // paper and section, or what it is known as
  const char* former_name = nullptr;  // that TUTTI_ALG and rules still take
  bool casts = false;      // wants Team::open_multicast() on all members before one of them casts
  bool watched = false;    // CastWatch numbers its calls
  bool offloaded = false;  // runs elsewhere: takes no place in the team's own order

  bool left_to_host() const noexcept { return run == nullptr; }
  Parameters defaults() const noexcept {
    Parameters values;
    for (std::size_t i = 0; i < parameters.size(); ++i) values.value[i] = parameters[i].initial;
    return values;
  }
  /// nullptr when it can run on this shape with these parameters, else why not (static string).
  const char* restriction(const Shape& shape, const Parameters& values) const noexcept {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& parameter = parameters[i];
      if (parameter.name != nullptr &&
          (values.value[i] < parameter.least || values.value[i] > parameter.most))
        return parameter.range;
    }
    return restriction_of(shape, values);
  }
};

}  // namespace tutti
