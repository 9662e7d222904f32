#include <sstream>

#include "select/parse.hpp"
#include "select/select.hpp"

namespace tutti {
namespace {

/// What is wrong with "OP=NAME[:KEY=VALUE...]"; empty when nothing is.
std::string parse_one(const std::string& text, Choice* choices) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return "'" + text + "' is not OP=NAME[:KEY=VALUE]";
  Coll coll;
  if (std::string wrong = parse_collective(text.substr(0, equals), &coll); !wrong.empty())
    return wrong;
  std::istringstream rest(text.substr(equals + 1));
  std::string algorithm;
  std::getline(rest, algorithm, ':');
  std::vector<std::string> values;
  for (std::string value; std::getline(rest, value, ':');) values.push_back(value);
  return parse_choice(coll, algorithm, values, &choices[static_cast<int>(coll)]);
}

}  // namespace

Status Forced::parse(const std::string& text, Forced* out, std::string* message) {
  Forced forced;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const std::string wrong = parse_one(part, forced.choices_);
    if (wrong.empty()) continue;
    *message = "TUTTI_ALG: " + wrong;
    return Status::error(Code::invalid_argument, "TUTTI_ALG");
  }
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
