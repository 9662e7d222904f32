// Choices that a site has made: the file that `tutti tune --choices` writes and TUTTI_CHOICES
// names.
//
// One rule a line, the first that matches and can run is taken, before the built-in thresholds:
//
//   OP       WHERE   RANKS   BYTES   ALGORITHM                 # why
//   bcast    node    2-2     1023    flat                      # measured: 0.05 us, thresholds 0.08
//   allreduce nodes  3-16    *       degree_k:degree=3         # predicted: 21.3 us
//
// WHERE: `node` for members that share memory, `nodes` for one member on each node. RANKS: members
// of the team, from - to. BYTES: the largest message, as Call::bytes counts; `*` for any.
//
// All ranks must read the same rules: Job::create compares hash().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "select/select.hpp"

namespace tutti {

class Tuned {
 public:
  struct Rule {
    Coll coll = Coll::barrier;
    bool mapped = true;  // WHERE is `node`
    int least_ranks = 0;
    int most_ranks = 0;
    std::size_t most_bytes = 0;
    Choice choice;
    int line = 0;
    std::string why;  // the comment behind the rule
  };

  /// Reads `path`. On failure `*out` is untouched and `*message` says in one line what would be
  /// right, with the line.
  static Status load(const std::string& path, Tuned* out, std::string* message);

  /// The rule for this shape, or nullptr. Uniform: it depends on the shape alone.
  const Rule* of(const Shape& shape) const noexcept;
  bool empty() const noexcept { return rules_.empty(); }
  /// Of all rules; 0 when there are none. Comments do not count.
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::vector<Rule> rules_;
  std::uint64_t hash_ = 0;
};

}  // namespace tutti
