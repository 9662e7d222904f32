// Selection: which algorithm runs a collective, from one list of all algorithms (list.cpp).
//
// The choice depends only on what all members of the team know alike: the collective, its bytes,
// the class of the operator and the shape of the team. So all members choose the same.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "coll/algorithm.hpp"

namespace tutti {

/// A chosen algorithm with its parameters.
struct Choice {
  const Algorithm* algorithm = nullptr;
  Parameters parameters;
  bool open = false;  // nobody has asked for it, and the host could run the call as well
};

/// The same algorithm with the same parameters.
bool same(const Choice& a, const Choice& b) noexcept;
/// As rules have it: "ring", "blocks(block=16384)"; parameters that are as they come are left out.
std::string rule_text(const Choice& choice);

/// All algorithms of tutti's, grouped by collective. Static.
std::span<const Algorithm* const> algorithms();
/// `mpi`, which every collective has: the host runs the whole call itself. Static.
const Algorithm& host_algorithm(Coll coll);

/// Of all these; nullptr when there is none of that name, nor was one.
const Algorithm* find_algorithm(Coll coll, std::string_view name);

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

class Rules;

/// The choice for a shape: the forced one where it can run there, else the site's (`site` may be
/// nullptr), else by the built-in rules. Where none can run it is the host's, and nullptr where
/// that cannot run it either.
Choice choose(const Shape& shape, const Forced& forced, const Rules* site = nullptr);
/// What the built-in rules would take for the shape if `chosen`, which is open, could not run
/// there; its algorithm is nullptr where that is none of tutti's own. Of blocking calls that
/// dedicated processors could serve: these.
Choice choose_second(const Shape& shape, const Choice& chosen);

/// The choices of one team for one collective and operator class by message size, made once.
class ChoiceTable {
 public:
  ChoiceTable() = default;
  /// `shape.bytes` is ignored.
  ChoiceTable(Shape shape, const Forced& forced, const Rules* site = nullptr);
  const Choice& at(std::size_t bytes) const noexcept {
    return bytes <= smallest_.last ? smallest_.choice : entry(bytes).choice;
  }
  /// Where that is open: what is tried beside it; its algorithm is nullptr where there is none.
  const Choice& second_at(std::size_t bytes) const noexcept { return entry(bytes).second; }
  /// The smallest message with another algorithm than `wanted`; false when there is none.
  bool find_other(const Algorithm* wanted, std::size_t* bytes) const noexcept;

 private:
  struct Entry {
    std::size_t last = 0;  // largest message with these choices
    Choice choice, second;
  };
  const Entry& entry(std::size_t bytes) const noexcept {
    for (const Entry& entry : entries_) {
      if (bytes <= entry.last) return entry;
    }
    return entries_.back();
  }
  Entry smallest_;  // entries_[0], without a look elsewhere
  std::vector<Entry> entries_;
};

/// Operator classes that selection tells apart.
enum class OperatorClass : std::uint8_t {
  divisible,
  whole,
  ordered,  // not commutative
  at_once   // Reduction::sum
};
inline constexpr std::size_t kOperatorClasses = 4;
inline OperatorClass class_of(const Call& call) noexcept {
  if (call.reduction == nullptr) return OperatorClass::divisible;
  if (call.reduction->sum != nullptr) return OperatorClass::at_once;
  if (!call.reduction->divisible) return OperatorClass::whole;
  return call.reduction->commutative ? OperatorClass::divisible : OperatorClass::ordered;
}

/// The choices of all teams of one shape, for every collective. Each table is made when it is first
/// asked for. One thread at a time (the engine's lock).
class Choices {
 public:
  Choices(const Shape& shape, const Forced& forced, const Rules* site)
      : shape_(shape), forced_(forced), site_(site) {}
  const ChoiceTable& table(Coll coll, OperatorClass operators) {
    auto& place = tables_[static_cast<std::size_t>(coll)][static_cast<std::size_t>(operators)];
    if (!place) [[unlikely]]
      place = make(coll, operators);
    return *place;
  }
  const Choice& of(const Call& call) {
    return table(call.coll, class_of(call)).at(call.coll == Coll::barrier ? 0 : call.bytes);
  }
  const Choice& second_of(const Call& call) {
    return table(call.coll, class_of(call)).second_at(call.coll == Coll::barrier ? 0 : call.bytes);
  }
  /// What the tables are made of; coll and bytes mean nothing.
  const Shape& shape() const noexcept { return shape_; }
  Shape shape(Coll coll, OperatorClass operators) const noexcept;
  /// As the table of its collective sees a call.
  Shape shape_of(const Call& call) const noexcept;

 private:
  std::unique_ptr<ChoiceTable> make(Coll coll, OperatorClass operators) const;

  Shape shape_;
  const Forced& forced_;
  const Rules* site_;
  std::array<std::array<std::unique_ptr<ChoiceTable>, kOperatorClasses>, kColls> tables_;
};

/// One Choices for each shape that a process has met. A program makes thousands of communicators,
/// of few shapes.
class ChoicesByShape {
 public:
  /// `forced` and `site` must outlive it.
  ChoicesByShape(const Forced& forced, const Rules& site) noexcept : forced_(forced), site_(site) {}
  Choices& of(const Shape& shape);

 private:
  const Forced& forced_;
  const Rules& site_;
  std::vector<std::unique_ptr<Choices>> all_;
};

/// Where the algorithm that `forced` names for shape.coll does not run: one line that says from
/// which size on and why; empty when it always does, or none is forced.
std::string where_not_forced(Shape shape, const Forced& forced, const ChoiceTable& table);

}  // namespace tutti
