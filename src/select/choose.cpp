// Which algorithm runs: what is forced, a site's rules, the built-in ones.
#include <algorithm>
#include <vector>

#include "select/rules.hpp"
#include "select/select.hpp"

namespace tutti {

Choice choose(const Shape& shape, const Forced& forced, const Rules* site) {
  if (const Choice* wanted = forced.of(shape.coll)) {
    if (wanted->algorithm->restriction(shape, wanted->parameters) == nullptr) return *wanted;
  }
  if (site != nullptr) {
    if (const Rule* rule = site->of(shape)) return rule->choice;
  }
  const Algorithm& host = host_algorithm(shape.coll);
  const bool host_can = host.restriction(shape, {}) == nullptr;
  if (const Rule* rule = Rules::built_in().of(shape)) {
    Choice choice = rule->choice;
    // Who computes meanwhile wants dedicated processors, whether they are faster or not.
    choice.open = host_can && forced.of(shape.coll) == nullptr && !choice.algorithm->offloaded &&
                  !choice.algorithm->left_to_host();
    return choice;
  }
  return host_can ? Choice{&host, {}} : Choice{};
}

Choice choose_second(const Shape& shape, const Choice& chosen) {
  if (chosen.open && shape.waits) {
    Shape overlapped = shape;
    overlapped.waits = false;
    const Rule* const rule = Rules::built_in().of(overlapped);
    if (rule != nullptr && rule->choice.algorithm->offloaded) return rule->choice;
  }
  const Rule* const rule = chosen.open ? Rules::built_in().of(shape, &chosen) : nullptr;
  const bool own = rule != nullptr && !rule->choice.algorithm->offloaded &&
                   !rule->choice.algorithm->left_to_host();
  return own ? rule->choice : Choice{};
}

bool same(const Choice& a, const Choice& b) noexcept {
  return a.algorithm == b.algorithm &&
         std::equal(a.parameters.value, a.parameters.value + Parameters::kMost, b.parameters.value);
}

namespace {

/// Sizes to look at: where rules have limits, and powers of two, since algorithms have limits, too.
std::vector<std::size_t> sizes_of_interest(const Shape& shape, const Rules* site) {
  if (shape.coll == Coll::barrier) return {};  // it has no bytes
  std::vector<std::size_t> sizes;
  for (int bit = 0; bit < 48; ++bit) sizes.push_back(std::size_t{1} << bit);
  if (site != nullptr) site->add_limits(shape, &sizes);
  Rules::built_in().add_limits(shape, &sizes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

ChoiceTable::ChoiceTable(Shape shape, const Forced& forced, const Rules* site) {
  const auto at_bytes = [&](std::size_t bytes) {
    shape.bytes = bytes;
    shape.longest_block = bytes;
    const Choice choice = choose(shape, forced, site);
    return Entry{bytes, choice, choose_second(shape, choice)};
  };
  const auto alike = [](const Entry& a, const Entry& b) {
    return same(a.choice, b.choice) && a.choice.open == b.choice.open && same(a.second, b.second);
  };
  std::size_t low = 0;
  Entry current = at_bytes(0);
  for (const std::size_t high : sizes_of_interest(shape, site)) {
    const Entry next = at_bytes(high);
    // The limits of algorithms between the two, by bisection.
    while (!alike(current, next)) {
      std::size_t known_same = low, known_other = high;
      while (known_other - known_same > 1) {
        const std::size_t middle = known_same + (known_other - known_same) / 2;
        (alike(at_bytes(middle), current) ? known_same : known_other) = middle;
      }
      current.last = known_same;
      entries_.push_back(current);
      current = at_bytes(known_other);
      low = known_other;
    }
    low = high;
  }
  current.last = ~std::size_t{0};
  entries_.push_back(current);
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
