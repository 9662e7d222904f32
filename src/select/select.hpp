// Selection: which algorithm runs a collective, from one list of all algorithms (list.cpp).
//
// The choice depends only on what all members of the team know alike: the collective, its bytes,
// the class of the operator and the shape of the team. So all members choose the same.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "coll/algorithm.hpp"

namespace tutti {

/// A chosen algorithm with its parameters.
struct Choice {
  const Algorithm* algorithm = nullptr;
  Parameters parameters;
};

/// All algorithms, grouped by collective. Static.
const std::vector<Algorithm>& algorithms();

/// nullptr when there is none of that name.
const Algorithm* find_algorithm(Coll coll, const std::string& name);

/// What TUTTI_ALG forces: at most one choice for each collective.
class Forced {
 public:
  /// Parses "OP=NAME[:KEY=VALUE[:KEY=VALUE]][,OP=NAME...]". On failure `*message` says in one line
  /// what would be right.
  static Status parse(const std::string& text, Forced* out, std::string* message);
  const Choice* of(Coll coll) const noexcept {
    const Choice& choice = choices_[static_cast<std::size_t>(coll)];
    return choice.algorithm != nullptr ? &choice : nullptr;
  }

 private:
  Choice choices_[kColls];
};

class Tuned;

/// The choice for a shape: the forced one where it can run there, else the site's (`tuned` may be
/// nullptr), else by measured thresholds. The algorithm is nullptr when none can run (the
/// collective is then left to the host).
Choice choose(const Shape& shape, const Forced& forced, const Tuned* tuned = nullptr);

/// The choices of one team for one collective and operator class by message size, made once.
class ChoiceTable {
 public:
  ChoiceTable() = default;
  /// `shape.bytes` is ignored.
  ChoiceTable(Shape shape, const Forced& forced, const Tuned* tuned = nullptr);
  const Choice& at(std::size_t bytes) const noexcept {
    if (bytes <= smallest_.last) return smallest_.choice;
    for (const Entry& entry : entries_) {
      if (bytes <= entry.last) return entry.choice;
    }
    return entries_.back().choice;
  }
  /// The smallest message with another algorithm than `wanted`; false when there is none.
  bool find_other(const Algorithm* wanted, std::size_t* bytes) const noexcept;

 private:
  struct Entry {
    std::size_t last = 0;  // largest message with this choice
    Choice choice;
  };
  Entry smallest_;  // entries_[0], without a look elsewhere
  std::vector<Entry> entries_;
};

/// Where the algorithm that `forced` names for shape.coll does not run: one line that says from
/// which size on and why; empty when it always does, or none is forced.
std::string where_not_forced(Shape shape, const Forced& forced, const ChoiceTable& table);

}  // namespace tutti
