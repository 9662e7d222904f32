// Which algorithm runs: what is forced, a site's rules, the built-in ones.
#include <algorithm>

#include "select/rules.hpp"
#include "select/select.hpp"

namespace tutti {

Choice choose(const Shape& shape, const Forced& forced, const Rules* site) {
  if (const Choice* wanted = forced.of(shape.coll)) {
    if (wanted->algorithm->restriction(shape, wanted->parameters) == nullptr) return *wanted;
  }
  for (const Rules* rules : {site, &Rules::built_in()}) {
    if (rules == nullptr) continue;
    if (const Rule* rule = rules->of(shape)) return rule->choice;
  }
  return {};
}

ChoiceTable::ChoiceTable(Shape shape, const Forced& forced, const Rules* site) {
  // Choices change only where a limit is; the limits are found by bisection between powers of two.
  const auto same = [](const Choice& a, const Choice& b) {
    return a.algorithm == b.algorithm &&
           std::equal(a.parameters.value, a.parameters.value + Parameters::kMost,
                      b.parameters.value);
  };
  const auto at_bytes = [&](std::size_t bytes) {
    shape.bytes = bytes;
    shape.longest_block = bytes;
    return choose(shape, forced, site);
  };
  std::size_t low = 0;
  Choice current = at_bytes(0);
  const int bits = shape.coll == Coll::barrier ? 0 : 48;  // a barrier has no bytes
  for (int bit = 0; bit < bits; ++bit) {
    const std::size_t high = std::size_t{1} << bit;
    const Choice next = at_bytes(high);
    if (!same(current, next)) {
      std::size_t known_same = low, known_other = high;
      while (known_other - known_same > 1) {
        const std::size_t middle = known_same + (known_other - known_same) / 2;
        (same(at_bytes(middle), current) ? known_same : known_other) = middle;
      }
      entries_.push_back({known_same, current});
      current = at_bytes(known_other);
      low = known_other;
      if (!same(current, next)) --bit;  // another limit before this power of two
    } else {
      low = high;
    }
  }
  entries_.push_back({~std::size_t{0}, current});
  smallest_ = entries_.front();
}

bool ChoiceTable::find_other(const Algorithm* wanted, std::size_t* bytes) const noexcept {
  std::size_t first = 0;
  for (const Entry& entry : entries_) {
    if (entry.choice.algorithm != wanted) {
      *bytes = first;
      return true;
    }
    first = entry.last + 1;
  }
  return false;
}

}  // namespace tutti
