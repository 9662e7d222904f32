// The extension module tutti._core: what the command line needs to know from the C++ side.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"

namespace {

using SettingTuple = std::tuple<std::string, std::string, std::string, std::string, std::string,
                                std::string>;

/// The settings in force: (name, type, default, value, source, help) each.
std::vector<SettingTuple> describe() {
  std::vector<SettingTuple> lines;
  for (const tutti::SettingLine& line : tutti::describe_settings()) {
    lines.emplace_back(line.name, line.type, line.fallback, line.value, line.source, line.help);
  }
  return lines;
}

/// Empty when environment and file are right, otherwise the one line that says what is not.
std::string check() {
  tutti::Settings settings;
  std::string message;
  return tutti::load_settings(&settings, &message).ok() ? std::string() : message;
}

/// The bytes that a text such as "64K" stands for, or -1.
long long bytes_of(const std::string& text) {
  std::size_t bytes = 0;
  return tutti::parse_bytes(text, &bytes) ? static_cast<long long>(bytes) : -1;
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("version") = TUTTI_VERSION;
  module.def("describe_settings", &describe);
  module.def("check_settings", &check);
  module.def("bytes_of", &bytes_of);
}
