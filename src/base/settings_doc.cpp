// Prints docs/settings.md: `cmake --build BUILD --target settings_doc` writes it.
#include <cstdio>
#include <string>

#include "base/settings.hpp"
#include "base/settings_audience.hpp"

namespace {

/// A value as it stands in a table: in code font, or a dash for no text.
std::string cell(const std::string& value) { return value.empty() ? "–" : "`" + value + "`"; }

const char* text(tutti::Scope scope) {
  switch (scope) {
    case tutti::Scope::any:
      return "any";
    case tutti::Scope::equal:
      return "equal";
    case tutti::Scope::equally_set:
      return "all or none";
  }
  return "";
}

void print_table(bool for_tests) {
  std::printf(
      "| setting | default | values | ranks | what it does |\n"
      "|---|---|---|---|---|\n");
  for (const tutti::SettingLine& line : tutti::describe_settings()) {
    if (tutti::is_for_tests(line.name) != for_tests) continue;
    std::printf("| `%s` | %s | %s | %s | %s |\n", line.name.c_str(), cell(line.fallback).c_str(),
                line.type.c_str(), text(line.scope), line.help.c_str());
  }
}

}  // namespace

int main() {
  std::printf(
      "# Settings\n"
      "\n"
      "<!-- Made from the table in src/base/settings.cpp by the target settings_doc. -->\n"
      "\n"
      "A setting is an environment variable, or a key in the TOML file that `TUTTI_CONFIG` names. "
      "The key is\n"
      "the same name in lower case without `TUTTI_` (`wait = \"spin\"`). The environment wins over "
      "the file.\n"
      "`tutti info` shows what is in force, and from where.\n"
      "\n"
      "| rule | |\n"
      "|---|---|\n"
      "| sizes | may have a unit: `65536`, `64K` and `64KiB` are the same |\n"
      "| `0 or 1` | `off`, `no`, `false`, `on`, `yes` and `true` will do, too |\n"
      "| an unknown name, a bad value | is an error that says what would be right |\n"
      "| `TUTTI_ROOT`, `TUTTI_DIR`, `TUTTI_HOME`, `TUTTI_VERSION`, ... | are ignored: modules say "
      "with them where tutti lies |\n"
      "| column *ranks*: equal | All ranks of a job must have the same value. Otherwise tutti says "
      "which setting differs, and leaves the job to its MPI. |\n"
      "| column *ranks*: all or none | All ranks set it, or none does. |\n"
      "| column *ranks*: any | Ranks may differ. |\n"
      "\n");
  print_table(false);
  std::printf(
      "| `TUTTI_CONFIG` | – | text | any | the TOML file to read |\n"
      "\n"
      "## For tests of tutti\n"
      "\n"
      "Nobody needs these to run a program.\n"
      "\n");
  print_table(true);
}
