#include <charconv>
#include <string_view>

#include "fabric/wrap/fault.hpp"

namespace tutti::wrap {
namespace {

constexpr std::string_view kActions[] = {"fail", "drop", "duplicate", "corrupt", "delay",
                                         "slow", "kill", "deaf",      "nocma"};
constexpr std::string_view kOps[] = {"put",    "get",  "expose",  "attach", "reserve",
                                     "signal", "cast", "receive", "any"};
constexpr std::string_view kCodes[] = {
    "ok",        "peer_lost",     "timeout",     "truncated",        "invalid_argument",
    "no_memory", "not_permitted", "unsupported", "version_mismatch", "corrupt",
    "internal"};
static_assert(std::size(kActions) == static_cast<std::size_t>(FaultAction::count_));
static_assert(std::size(kOps) == static_cast<std::size_t>(FaultOp::count_));

constexpr unsigned bit(FaultOp op) { return 1u << static_cast<unsigned>(op); }
constexpr unsigned kPut = bit(FaultOp::put), kSignal = bit(FaultOp::signal);
constexpr unsigned kCast = bit(FaultOp::cast), kReceive = bit(FaultOp::receive);
/// Towards one peer.
constexpr unsigned kDirected = kPut | kSignal | bit(FaultOp::get) | bit(FaultOp::attach);
constexpr unsigned kStatus =
    kPut | bit(FaultOp::get) | bit(FaultOp::expose) | bit(FaultOp::attach) | bit(FaultOp::reserve);
/// Operations that each action can do something to; none: it takes no op.
constexpr unsigned kPossible[] = {kStatus,
                                  kPut | kSignal | kCast | kReceive,
                                  kPut | kCast,
                                  kPut | kCast | kReceive,
                                  kPut,
                                  kPut,
                                  kStatus | kSignal | kCast | kReceive | bit(FaultOp::any),
                                  0,
                                  0};

template <std::size_t N>
bool find(const std::string_view (&names)[N], std::string_view word, std::size_t* index) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] != word) continue;
    *index = i;
    return true;
  }
  return false;
}

template <std::size_t N>
std::string list(const std::string_view (&names)[N], unsigned mask = ~0u) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += names[i];
  }
  return text;
}

bool waits(FaultAction action) {
  return action == FaultAction::delay || action == FaultAction::slow;
}

bool number(std::string_view word, std::uint64_t* out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out);
  return error == std::errc{} && end == word.data() + word.size() && !word.empty();
}

bool rank_number(std::string_view word, int* out) {
  std::uint64_t n = 0;
  if (!number(word, &n) || n > 1'000'000'000) return false;
  *out = static_cast<int>(n);
  return true;
}

/// Takes the part before the first `separator` off `*rest`.
std::string_view cut(std::string_view* rest, char separator) {
  const std::size_t place = rest->find(separator);
  const std::string_view part = rest->substr(0, place);
  *rest = place == std::string_view::npos ? std::string_view{} : rest->substr(place + 1);
  return part;
}

/// Sets one KEY=VALUE of a rule; gives what would be right, or nothing when it is.
std::string set(std::string_view key, std::string_view value, FaultRule* rule) {
  const unsigned possible = kPossible[static_cast<std::size_t>(rule->action)];
  std::size_t index = 0;
  std::uint64_t n = 0;
  if (key == "rank" && rule->action != FaultAction::nocma) {
    if (!rank_number(value, &rule->rank)) return "rank must be a number of at least 0";
  } else if (key == "peer" && (possible & kDirected) != 0) {
    if (!rank_number(value, &rule->peer)) return "peer must be a number of at least 0";
  } else if (key == "op" && possible != 0) {
    if (!find(kOps, value, &index) || (possible >> index & 1) == 0)
      return "op must be one of " + list(kOps, possible);
    rule->op = static_cast<FaultOp>(index);
  } else if (key == "at" && possible != 0) {
    if (!number(value, &rule->at) || rule->at == 0) return "at must be a number of at least 1";
  } else if (key == "count" && possible != 0) {
    if (!number(value, &rule->count)) return "count must be a number; 0: all";
  } else if (key == "every" && possible != 0) {
    if (!number(value, &rule->every) || rule->every == 0)
      return "every must be a number of at least 1";
  } else if (key == "code" && rule->action == FaultAction::fail) {
    if (!find(kCodes, value, &index) || index == 0)
      return "code must be one of " + list(kCodes, ~1u);
    rule->code = static_cast<Code>(index);
  } else if (key == "us" && (waits(rule->action) ||
                             (rule->action == FaultAction::fail && rule->op == FaultOp::put))) {
    if (!number(value, &n) || n == 0 || n > 60'000'000)
      return "us must be a number from 1 to 60000000";
    rule->delay_ns = n * 1000;
  } else {
    std::string keys = possible != 0                       ? "op, at, every, count, rank"
                       : rule->action == FaultAction::deaf ? "rank"
                                                           : "no key";
    if ((possible & kDirected) != 0) keys += ", peer";
    if (rule->action == FaultAction::fail) keys += ", code, and us after op=put";
    if (waits(rule->action)) keys += ", us";
    return std::string(kActions[static_cast<std::size_t>(rule->action)]) + " takes " + keys;
  }
  return {};
}

std::string parse_rule(std::string_view text, FaultRule* rule) {
  std::size_t index = 0;
  if (!find(kActions, cut(&text, ':'), &index))
    return "a rule begins with one of " + list(kActions);
  rule->action = static_cast<FaultAction>(index);
  bool has_op = kPossible[index] == 0;
  while (!text.empty()) {
    std::string_view value = cut(&text, ':');
    const std::string_view key = cut(&value, '=');
    has_op = has_op || key == "op";
    if (std::string wrong = set(key, value, rule); !wrong.empty()) return wrong;
  }
  if (!has_op) return std::string(kActions[index]) + " needs op=";
  if (waits(rule->action) && rule->delay_ns == 0)
    return std::string(kActions[index]) + " needs us=";
  if (rule->peer >= 0 && (kDirected & bit(rule->op)) == 0)
    return "peer goes with op of " + list(kOps, kDirected);
  return {};
}

}  // namespace

bool FaultSpec::parse(const std::string& text, FaultSpec* out, std::string* message) {
  FaultSpec spec;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = cut(&rest, ',');
    FaultRule rule;
    if (const std::string wrong = parse_rule(part, &rule); !wrong.empty()) {
      *message = "TUTTI_FAULT: \"" + std::string(part.substr(0, 200)) + "\": " + wrong;
      return false;
    }
    spec.rules.push_back(rule);
  }
  *out = std::move(spec);
  return true;
}

}  // namespace tutti::wrap
