#include <charconv>
#include <sstream>

#include "select/select.hpp"

namespace tutti {
namespace {

std::string names_of(Coll coll) {
  std::string names;
  for (const Algorithm* const one : algorithms()) {
    const Algorithm& algorithm = *one;
    if (algorithm.coll == coll) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return names;
}

std::string all_collectives() {
  std::string names;
  for (int i = 0; i < kColls; ++i)
    names += (i == 0 ? "" : ", ") + std::string(name(static_cast<Coll>(i)));
  return names;
}

std::string parameters_of(const Algorithm& algorithm) {
  std::string names;
  for (const Parameter& parameter : algorithm.parameters) {
    if (parameter.name != nullptr)
      names += (names.empty() ? ", but '" : " and '") + std::string(parameter.name) + "'";
  }
  return names.empty() ? " (it has none)" : names;
}

Status complain(std::string* message, const std::string& text) {
  *message = "TUTTI_ALG: " + text;
  return Status::error(Code::invalid_argument, "TUTTI_ALG");
}

/// "KEY=VALUE" for one of the algorithm's parameters.
Status parse_parameter(const std::string& text, const Algorithm& algorithm, Parameters* parameters,
                       std::string* message) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  for (std::size_t i = 0; i < Parameters::kMost; ++i) {
    const Parameter& wanted = algorithm.parameters[i];
    if (wanted.name == nullptr || key != wanted.name) continue;
    const bool is_switch = std::string_view(wanted.unit) == "switch";
    const std::int64_t least = is_switch ? 0 : 1, most = is_switch ? 1 : Parameter::kMost;
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), parameters->value[i]);
    if (error == std::errc() && end == value.data() + value.size() &&
        parameters->value[i] >= least && parameters->value[i] <= most) {
      return Status::success();
    }
    return complain(message, "'" + text + "': " + key +
                                 (least == 0 ? " takes 0 or 1" : " takes a positive whole number"));
  }
  return complain(message, std::string(name(algorithm.coll)) + " " + algorithm.name +
                               " has no parameter '" + key + "'" + parameters_of(algorithm));
}

Status parse_one(const std::string& text, Choice* choices, std::string* message) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    return complain(message, "'" + text + "' is not OP=NAME[:KEY=VALUE]");
  const std::string op = text.substr(0, equals);
  int coll = 0;
  while (coll < kColls && op != name(static_cast<Coll>(coll))) ++coll;
  if (coll == kColls)
    return complain(message, "no collective '" + op + "'; there are " + all_collectives());

  std::istringstream rest(text.substr(equals + 1));
  std::string part;
  std::getline(rest, part, ':');
  const Algorithm* algorithm = find_algorithm(static_cast<Coll>(coll), part);
  if (algorithm == nullptr) {
    return complain(message, op + " has no algorithm '" + part + "'; there are " +
                                 names_of(static_cast<Coll>(coll)));
  }
  Choice choice{algorithm, algorithm->defaults()};
  while (std::getline(rest, part, ':'))
    TUTTI_TRY(parse_parameter(part, *algorithm, &choice.parameters, message));
  choices[coll] = choice;
  return Status::success();
}

}  // namespace

Status Forced::parse(const std::string& text, Forced* out, std::string* message) {
  Forced forced;
  std::istringstream stream(text);
  std::string part;
  while (std::getline(stream, part, ',')) TUTTI_TRY(parse_one(part, forced.choices_, message));
  *out = forced;
  return Status::success();
}

std::string where_not_forced(Shape shape, const Forced& forced, const ChoiceTable& table) {
  const Choice* wanted = forced.of(shape.coll);
  if (wanted == nullptr || !table.find_other(wanted->algorithm, &shape.bytes)) return "";
  shape.longest_block = shape.bytes;
  const char* why = wanted->algorithm->restriction(shape, wanted->parameters);
  return "TUTTI_ALG: " + std::string(name(shape.coll)) + " " + wanted->algorithm->name +
         " cannot run with " + std::to_string(shape.size) + " ranks from " +
         std::to_string(shape.bytes) + " bytes on" +
         (why == nullptr ? "" : " (" + std::string(why) + ")") + "; the usual choice is made there";
}

}  // namespace tutti
