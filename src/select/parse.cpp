#include "select/parse.hpp"

#include <charconv>

#include "base/settings.hpp"

namespace tutti {
namespace {

std::string all_collectives() {
  std::string names;
  for (int i = 0; i < kColls; ++i)
    names += (i == 0 ? "" : ", ") + std::string(name(static_cast<Coll>(i)));
  return names;
}

std::string names_of(Coll coll) {
  std::string names;
  for (const Algorithm* const algorithm : algorithms()) {
    if (algorithm->coll == coll)
      names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  return names + ", " + host_algorithm(coll).name;
}

std::string parameters_of(const Algorithm& algorithm) {
  std::string names;
  for (const Parameter& parameter : algorithm.parameters) {
    if (parameter.name != nullptr)
      names += (names.empty() ? ", but '" : " and '") + std::string(parameter.name) + "'";
  }
  return names.empty() ? " (it has none)" : names;
}

/// A whole number; of bytes also with a suffix such as K.
bool parse_value(const Parameter& wanted, const std::string& text, std::int64_t* out) {
  const bool is_switch = std::string_view(wanted.unit) == "switch";
  const std::int64_t least = is_switch ? 0 : 1, most = is_switch ? 1 : Parameter::kMost;
  if (std::size_t bytes = 0;
      std::string_view(wanted.unit) == "bytes" && parse_bytes(text, &bytes)) {
    *out = static_cast<std::int64_t>(std::min(bytes, std::size_t{1} << 62));
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  }
  return least <= *out && *out <= most;
}

std::string parse_parameter(const std::string& text, const Algorithm& algorithm,
                            Parameters* parameters) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  for (std::size_t i = 0; i < Parameters::kMost; ++i) {
    const Parameter& wanted = algorithm.parameters[i];
    if (wanted.name == nullptr || key != wanted.name) continue;
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (parse_value(wanted, value, &parameters->value[i])) {
      const bool runs = wanted.least <= parameters->value[i] && parameters->value[i] <= wanted.most;
      return runs ? "" : "'" + text + "': " + wanted.range;
    }
    return "'" + text + "': " + key +
           (std::string_view(wanted.unit) == "switch" ? " takes 0 or 1"
                                                      : " takes a positive whole number");
  }
  return std::string(name(algorithm.coll)) + " " + algorithm.name + " has no parameter '" + key +
         "'" + parameters_of(algorithm);
}

}  // namespace

std::string parse_collective(const std::string& text, Coll* out) {
  for (int i = 0; i < kColls; ++i) {
    if (text != name(static_cast<Coll>(i))) continue;
    *out = static_cast<Coll>(i);
    return "";
  }
  return "no collective '" + text + "'; there are " + all_collectives();
}

std::string parse_choice(Coll coll, const std::string& text, const std::vector<std::string>& values,
                         Choice* out) {
  const Algorithm* algorithm = find_algorithm(coll, text);
  if (algorithm == nullptr) {
    return std::string(name(coll)) + " has no algorithm '" + text + "'; there are " +
           names_of(coll);
  }
  *out = {algorithm, algorithm->defaults()};
  for (const std::string& value : values) {
    if (std::string wrong = parse_parameter(value, *algorithm, &out->parameters); !wrong.empty())
      return wrong;
  }
  return "";
}

std::string rule_text(const Choice& choice) {
  const Algorithm& algorithm = *choice.algorithm;
  const Parameters usual = algorithm.defaults();
  std::string text = algorithm.name;
  char before = '(';
  for (std::size_t i = 0; i < Parameters::kMost; ++i) {
    const std::int64_t value = choice.parameters.value[i];
    if (algorithm.parameters[i].name == nullptr || value == usual.value[i]) continue;
    text += before;
    text += algorithm.parameters[i].name;
    text += '=';
    text += std::to_string(value);
    before = ',';
  }
  if (before == ',') text += ')';
  return text;
}

}  // namespace tutti
