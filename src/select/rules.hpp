// Rules: which algorithm runs where, as data that a person reads and a site writes. The built-in
// ones (builtin.choices) and a site's (TUTTI_CHOICES, what `tutti tune --choices` writes) are in
// one language, which docs/choices.md describes:
//
//   [nodes ranks=3..16 processors=own]             # where
//   allreduce: ..1K degree_k(degree=7); * ring     # OP: SIZES ALGORITHM; SIZES ALGORITHM
//
// The first rule that matches and whose algorithm can run is taken. All ranks must read the same
// rules: Job::create compares hash().
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "select/select.hpp"

namespace tutti {

/// What a section asks of the members; what is not given is left open.
struct Where {
  /// Node: they share memory. Nodes: each is on a node of its own. Layers: several nodes, some with
  /// several of them.
  enum class Place : std::uint8_t { any, node, nodes, layers };
  Place place = Place::any;
  int least_ranks = 1, most_ranks = std::numeric_limits<int>::max();
  std::optional<bool> scarce;  // Shape::scarce
  std::optional<bool> bypass;  // Shape::bypass
  bool dedicated = false;      // only with dedicated processors
  std::optional<bool> waits;   // Shape::waits

  bool holds(const Shape& shape) const noexcept;
};

/// Sizes of messages as Call::bytes counts them, both ends included.
struct Sizes {
  std::size_t least = 0, most = std::numeric_limits<std::size_t>::max();
  bool for_each_rank = false;  // `most` is multiplied by the members

  std::size_t last(const Shape& shape) const noexcept;  // the largest one
  bool hold(const Shape& shape) const noexcept;
};

struct Rule {
  Coll coll = Coll::barrier;
  Where where;
  Sizes sizes;
  Choice choice;
  int line = 0;
  std::string why;  // the comment behind it, else that behind its section
};

class Rules {
 public:
  /// The rules that `text` has. On failure `*out` is untouched and `*message` says in one line,
  /// which begins with `name` and the number of the line, what would be right.
  static Status parse(std::string_view text, const std::string& name, Rules* out,
                      std::string* message);
  /// The same of a file.
  static Status load(const std::string& path, Rules* out, std::string* message);
  /// Those that come with tutti. Any thread.
  static const Rules& built_in();

  /// The rule for this shape, or nullptr. Uniform: it depends on the shape alone.
  /// `other_than`: unless nullptr, a choice that it must not be.
  const Rule* of(const Shape& shape, const Choice* other_than = nullptr) const noexcept;
  /// Adds the sizes from which on another rule may count for the shape's collective.
  void add_limits(const Shape& shape, std::vector<std::size_t>* sizes) const;
  bool empty() const noexcept { return rules_.empty(); }
  std::size_t size() const noexcept { return rules_.size(); }
  /// Of all rules; 0 when there are none. Comments and spaces do not count.
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::vector<Rule> rules_;
  std::uint64_t hash_ = 0;
};

/// The text of the built-in rules.
std::string_view builtin_choices() noexcept;

}  // namespace tutti
