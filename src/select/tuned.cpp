#include "select/tuned.hpp"

#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

namespace tutti {
namespace {

std::uint64_t mixed(std::uint64_t hash, const std::string& text) noexcept {
  for (const unsigned char c : text + ' ') hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

bool number(const std::string& text, std::size_t most, std::size_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out <= most;
}

/// "3-16" or "4".
bool range(const std::string& text, int* least, int* most) {
  const std::size_t dash = text.find('-');
  std::size_t from = 0, to = 0;
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  if (!number(text.substr(0, dash), kMost, &from)) return false;
  if (dash == std::string::npos) {
    to = from;
  } else if (!number(text.substr(dash + 1), kMost, &to)) {
    return false;
  }
  *least = static_cast<int>(from);
  *most = static_cast<int>(to);
  return 2 <= from && from <= to;
}

/// What is wrong with the words of a rule; empty when nothing is.
std::string parse_rule(const std::vector<std::string>& words, Tuned::Rule* rule) {
  if (words.size() != 5) return "a rule is OP WHERE RANKS BYTES ALGORITHM";
  Forced forced;
  std::string message;
  if (!Forced::parse(words[0] + "=" + words[4], &forced, &message).ok()) {
    const std::size_t prefix = message.find(": ");  // "TUTTI_ALG: "
    return message.substr(prefix == std::string::npos ? 0 : prefix + 2);
  }
  for (int coll = 0; coll < kColls; ++coll) {
    if (const Choice* choice = forced.of(static_cast<Coll>(coll))) {
      rule->coll = static_cast<Coll>(coll);
      rule->choice = *choice;
    }
  }
  if (words[1] != "node" && words[1] != "nodes")
    return "'" + words[1] + "' is no place: node or nodes";
  rule->mapped = words[1] == "node";
  if (!range(words[2], &rule->least_ranks, &rule->most_ranks))
    return "'" + words[2] + "' is no range of ranks such as 2-16";
  rule->most_bytes = std::numeric_limits<std::size_t>::max();
  if (words[3] != "*" && !number(words[3], rule->most_bytes, &rule->most_bytes))
    return "'" + words[3] + "' is no number of bytes, nor *";
  return "";
}

}  // namespace

Status Tuned::load(const std::string& path, Tuned* out, std::string* message) {
  std::ifstream file(path);
  Tuned tuned;
  std::string line;
  for (int count = 1; std::getline(file, line); ++count) {
    const std::size_t comment = line.find('#');
    std::istringstream text(line.substr(0, comment));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    if (words.empty()) continue;
    Rule rule;
    if (const std::string wrong = parse_rule(words, &rule); !wrong.empty()) {
      *message = path + ":" + std::to_string(count) + ": " + wrong;
      return Status::error(Code::invalid_argument, "a rule of TUTTI_CHOICES is wrong");
    }
    rule.line = count;
    if (comment != std::string::npos) {
      const std::size_t begin = line.find_first_not_of(" #", comment);
      if (begin != std::string::npos) rule.why = line.substr(begin);
    }
    if (tuned.rules_.empty()) tuned.hash_ = 0xcbf29ce484222325u;
    for (const std::string& word : words) tuned.hash_ = mixed(tuned.hash_, word);
    tuned.rules_.push_back(std::move(rule));
  }
  if (!file.eof()) {
    *message = path + ": cannot be read; tutti tune --choices FILE writes such a file";
    return Status::error(Code::invalid_argument, "TUTTI_CHOICES cannot be read");
  }
  *out = std::move(tuned);
  return Status::success();
}

const Tuned::Rule* Tuned::of(const Shape& shape) const noexcept {
  if (shape.layered) return nullptr;
  for (const Rule& rule : rules_) {
    const bool matches = rule.coll == shape.coll && rule.mapped == shape.mapped &&
                         rule.least_ranks <= shape.size && shape.size <= rule.most_ranks &&
                         shape.bytes <= rule.most_bytes;
    if (matches && rule.choice.algorithm->restriction(shape, rule.choice.parameters) == nullptr)
      return &rule;
  }
  return nullptr;
}

}  // namespace tutti
