#include "select/rules.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/hash.hpp"
#include "base/settings.hpp"
#include "select/parse.hpp"

namespace tutti {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kConditions =
    "node, nodes, layers, ranks=2..16, processors=own or scarce, network=bypass or kernel, "
    "dedicated, dedicated=overlapped or blocking";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

Words split(std::string_view text, char separator) {
  Words parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

/// "2..8", "..8", "9.." or "4".
bool read_ranks(const std::string& text, Where* where) {
  const std::size_t dots = text.find("..");
  const auto read = [](const std::string& digits, int* out) {
    if (digits.empty()) return true;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out);
    return error == std::errc() && end == digits.data() + digits.size() && *out >= 1;
  };
  const bool given = where->least_ranks != 1 || where->most_ranks != Where{}.most_ranks;
  if (given || text.empty() || text == "..") return false;
  if (dots == std::string::npos)
    return read(text, &where->least_ranks) && read(text, &where->most_ranks);
  return read(text.substr(0, dots), &where->least_ranks) &&
         read(text.substr(dots + 2), &where->most_ranks) && where->least_ranks <= where->most_ranks;
}

/// One of two words. False when it is neither.
bool read_either(const std::string& text, const char* yes, const char* no,
                 std::optional<bool>* out) {
  if (out->has_value() || (text != yes && text != no)) return false;
  *out = text == yes;
  return true;
}

bool read_condition(const std::string& word, Where* where) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (key == "ranks") return read_ranks(value, where);
  if (key == "processors") return read_either(value, "scarce", "own", &where->scarce);
  if (key == "network") return read_either(value, "bypass", "kernel", &where->bypass);
  if (key == "dedicated") {
    where->dedicated = true;
    return word == key || read_either(value, "blocking", "overlapped", &where->waits);
  }
  for (const auto& [name, place] :
       {std::pair{"node", Where::Place::node}, std::pair{"nodes", Where::Place::nodes},
        std::pair{"layers", Where::Place::layers}}) {
    if (word != name) continue;
    if (where->place != Where::Place::any) return false;
    where->place = place;
    return true;
  }
  return false;
}

/// What is wrong with "[CONDITION ...]"; empty when nothing is.
std::string read_section(const std::string& line, Where* where) {
  *where = {};
  if (!line.ends_with(']')) return "a section ends in ]";
  std::string conditions = line.substr(1, line.size() - 2);
  std::replace(conditions.begin(), conditions.end(), '\t', ' ');
  for (const std::string& word : split(conditions, ' ')) {
    if (!word.empty() && !read_condition(word, where))
      return "'" + word + "' is no condition; there are " + kConditions;
  }
  return "";
}

/// "*", "..2K", "12K..", "1K..64K" or "..32K*ranks".
bool read_sizes(std::string text, Sizes* sizes) {
  constexpr std::string_view kForEachRank = "*ranks";
  if (text == "*") return true;
  sizes->for_each_rank = text.ends_with(kForEachRank);
  if (sizes->for_each_rank) text.resize(text.size() - kForEachRank.size());
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos || text == "..") return false;
  const std::string from = text.substr(0, dots), to = text.substr(dots + 2);
  if (to.empty() && sizes->for_each_rank) return false;
  return (from.empty() || parse_bytes(from, &sizes->least)) &&
         (to.empty() || parse_bytes(to, &sizes->most)) &&
         (sizes->for_each_rank || sizes->least <= sizes->most);
}

/// What is wrong with "SIZES ALGORITHM"; empty when nothing is.
std::string read_entry(const std::string& entry, Rule* rule) {
  const std::size_t space = entry.find_first_of(" \t");
  const std::string sizes = entry.substr(0, space);
  rule->sizes = {};
  if (!read_sizes(sizes, &rule->sizes))
    return "'" + sizes + "' are no sizes: ..2K, 12K.., 1K..64K, ..32K*ranks or * for all";
  if (space == std::string::npos) return "'" + entry + "': behind the sizes comes an algorithm";
  std::string text = trimmed(entry.substr(space)), values;
  if (const std::size_t open = text.find('('); open != std::string::npos) {
    if (!text.ends_with(')')) return "'" + text + "': the parameters end in )";
    values = text.substr(open + 1, text.size() - open - 2);
    text = trimmed(text.substr(0, open));
  }
  return parse_choice(rule->coll, text, split(values, ','), &rule->choice);
}

std::uint64_t mixed(std::uint64_t hash, std::string_view text) noexcept {
  for (const unsigned char c : text) {
    if (c != ' ' && c != '\t' && c != '\r') hash = hash_of(&c, 1, hash);
  }
  return hash_of("\n", 1, hash);
}

/// Reads line after line.
class Reader {
 public:
  /// What is wrong with it; empty when nothing is.
  std::string read(std::string_view line, int number) {
    const std::size_t hash = line.find('#');
    const std::string text = trimmed(line.substr(0, hash));
    std::string why;
    if (hash != std::string_view::npos) why = trimmed(line.substr(hash + 1));
    if (text.empty()) return "";
    hash_ = mixed(hash_, text);
    if (text.starts_with('[')) {
      section_why_ = why;
      return read_section(text, &where_);
    }
    return read_rules(text, number, why.empty() ? section_why_ : why);
  }
  std::vector<Rule> rules;
  std::uint64_t hash() const noexcept { return rules.empty() ? 0 : hash_; }

 private:
  std::string read_rules(const std::string& text, int number, const std::string& why) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos)
      return "'" + text + "' is neither a [section] nor OP: SIZES ALGORITHM; ...";
    Rule rule;
    rule.where = where_;
    rule.line = number;
    rule.why = why;
    if (std::string wrong = parse_collective(trimmed(text.substr(0, colon)), &rule.coll);
        !wrong.empty())
      return wrong;
    const Words entries = split(text.substr(colon + 1), ';');
    if (entries.empty()) return "no algorithm behind '" + text + "'";
    for (const std::string& entry : entries) {
      if (std::string wrong = read_entry(entry, &rule); !wrong.empty()) return wrong;
      rules.push_back(rule);
    }
    return "";
  }

  Where where_;
  std::string section_why_;
  std::uint64_t hash_ = kHashOfNothing;
};

}  // namespace

bool Where::holds(const Shape& shape) const noexcept {
  const Place its_place = shape.hierarchical ? Place::layers
                          : shape.mapped     ? Place::node
                                             : Place::nodes;
  return (place == Place::any || place == its_place) && least_ranks <= shape.size &&
         shape.size <= most_ranks && (!dedicated || shape.dedicated) &&
         scarce.value_or(shape.scarce) == shape.scarce &&
         bypass.value_or(shape.bypass) == shape.bypass &&
         waits.value_or(shape.waits) == shape.waits;
}

std::size_t Sizes::last(const Shape& shape) const noexcept {
  std::size_t last = most;
  if (for_each_rank && __builtin_mul_overflow(most, static_cast<std::size_t>(shape.size), &last))
    last = std::numeric_limits<std::size_t>::max();
  return last;
}

bool Sizes::hold(const Shape& shape) const noexcept {
  return least <= shape.bytes && shape.bytes <= last(shape);
}

Status Rules::parse(std::string_view text, const std::string& name, Rules* out,
                    std::string* message) {
  Reader reader;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string wrong = reader.read(text.substr(begin, end - begin), ++number);
    if (!wrong.empty()) {
      *message = name + ":" + std::to_string(number) + ": " + wrong;
      return Status::error(Code::invalid_argument, "a rule of TUTTI_CHOICES is wrong");
    }
    begin = end + 1;
  }
  out->hash_ = reader.hash();
  out->rules_ = std::move(reader.rules);
  return Status::success();
}

Status Rules::load(const std::string& path, Rules* out, std::string* message) {
  std::ifstream file(path);
  file.peek();  // opens directories, too
  if (!file.is_open() || file.bad()) {
    *message = path + ": cannot be read; tutti tune --choices FILE writes such a file";
    return Status::error(Code::invalid_argument, "TUTTI_CHOICES cannot be read");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse(text, path, out, message);
}

const Rules& Rules::built_in() {
  static const Rules rules = [] {
    Rules read;
    std::string message;
    // The file is part of the build, and a test reads it.
    if (!parse(builtin_choices(), "builtin.choices", &read, &message).ok()) std::abort();
    return read;
  }();
  return rules;
}

const Rule* Rules::of(const Shape& shape, const Choice* other_than) const noexcept {
  for (const Rule& rule : rules_) {
    if (rule.coll == shape.coll && rule.sizes.hold(shape) && rule.where.holds(shape) &&
        rule.choice.algorithm->restriction(shape, rule.choice.parameters) == nullptr &&
        (other_than == nullptr || !same(rule.choice, *other_than)))
      return &rule;
  }
  return nullptr;
}

void Rules::add_limits(const Shape& shape, std::vector<std::size_t>* sizes) const {
  for (const Rule& rule : rules_) {
    if (rule.coll != shape.coll) continue;
    const std::size_t last = rule.sizes.last(shape);
    sizes->push_back(rule.sizes.least);
    if (last != std::numeric_limits<std::size_t>::max()) sizes->push_back(last + 1);
  }
}

}  // namespace tutti
