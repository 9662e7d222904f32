// Settings: every source, every error and its message.
#include "base/settings.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace tutti {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> names;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string line = *variable;
      if (line.starts_with("TUTTI_")) names.push_back(line.substr(0, line.find('=')));
    }
    for (const auto& name : names) ::unsetenv(name.c_str());
    char pattern[] = "/tmp/tutti-settings-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    path_ = directory_ + "/tutti.toml";
  }

  void TearDown() override {
    for (const auto& name : set_) ::unsetenv(name.c_str());
    ::unlink(path_.c_str());
    ::rmdir(directory_.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  void write_file(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    set("TUTTI_CONFIG", path_);
  }

  Settings loaded() {
    Settings settings;
    std::string message;
    const Status status = load_settings(&settings, &message);
    EXPECT_TRUE(status.ok()) << message;
    EXPECT_EQ(message, "");
    return settings;
  }

  /// The message of a load that must fail and must not touch the settings.
  std::string error() {
    Settings settings;
    settings.algorithm = "untouched";
    settings.ring = 7;
    std::string message;
    const Status status = load_settings(&settings, &message);
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_EQ(settings.algorithm, "untouched");
    EXPECT_EQ(settings.ring, 7U);
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }

  std::string error_of(const std::string& name, const std::string& value) {
    set(name, value);
    const std::string message = error();
    ::unsetenv(name.c_str());
    return message;
  }

  std::string error_of_file(const std::string& text) {
    write_file(text);
    std::string message = error();
    if (message.starts_with(path_)) message = "FILE" + message.substr(path_.size());
    return message;
  }

  SettingLine line(const std::string& name) {
    for (const auto& found : describe_settings()) {
      if (found.name == name) return found;
    }
    ADD_FAILURE() << "no " << name;
    return {};
  }

  std::string directory_, path_;
  std::vector<std::string> set_;
};

// ---- where values come from
// -----------------------------------------------------------------------

TEST_F(SettingsTest, AreTheDefaultsWhenNothingIsSaid) {
  const Settings settings = loaded(), defaults;
  EXPECT_EQ(settings.disable, defaults.disable);
  EXPECT_EQ(settings.ring, defaults.ring);
  EXPECT_EQ(settings.wait, defaults.wait);
  EXPECT_EQ(settings.progress_cpu, defaults.progress_cpu);
}

TEST_F(SettingsTest, ComeFromTheEnvironment) {
  set("TUTTI_DISABLE", "1");
  set("TUTTI_ALG", "allreduce=ring:block=4K");
  set("TUTTI_REPORT", "1");
  set("TUTTI_REPORT_JSON", "/tmp/report.json");
  set("TUTTI_LOG", "debug");
  set("TUTTI_WAIT", "yield");
  set("TUTTI_SPIN_US", "12.5");
  set("TUTTI_DEADLINE", "30");
  set("TUTTI_CMA", "off");
  set("TUTTI_SEGMENT", "posix");
  set("TUTTI_ARENA", "2GiB");
  set("TUTTI_RING", "2M");
  set("TUTTI_BLOCK", "32768");
  set("TUTTI_FIXED_ORDER", "yes");
  set("TUTTI_PROGRESS_THREAD", "on");
  set("TUTTI_PROGRESS_CPU", "3");
  set("TUTTI_FAULT", "drop");
  set("TUTTI_TRACE", "/tmp/trace");
  set("TUTTI_CHECK", "true");
  const Settings settings = loaded();
  EXPECT_TRUE(settings.disable);
  EXPECT_EQ(settings.algorithm, "allreduce=ring:block=4K");
  EXPECT_EQ(settings.report, "1");
  EXPECT_EQ(settings.report_json, "/tmp/report.json");
  EXPECT_EQ(settings.log, LogLevel::debug);
  EXPECT_EQ(settings.wait, WaitMode::yield);
  EXPECT_EQ(settings.spin_us, 12.5);
  EXPECT_EQ(settings.deadline_s, 30);
  EXPECT_EQ(settings.cma, Switch::off);
  EXPECT_EQ(settings.segment, SegmentKind::posix);
  EXPECT_EQ(settings.arena, std::size_t{2} << 30);
  EXPECT_EQ(settings.ring, std::size_t{2} << 20);
  EXPECT_EQ(settings.block, 32768U);
  EXPECT_EQ(settings.fixed_order, FixedOrder::on);
  EXPECT_EQ(settings.progress_thread, Switch::on);
  EXPECT_EQ(settings.progress_cpu, 3);
  EXPECT_EQ(settings.fault, "drop");
  EXPECT_EQ(settings.trace, "/tmp/trace");
  EXPECT_EQ(settings.check, Check::contract);
}

TEST_F(SettingsTest, ComeFromTheFile) {
  write_file(
      "# a comment\n"
      "disable = true\n"
      "alg = \"bcast=binomial\"\n"
      "spin_us = 0.25\n"
      "deadline = 10\n"
      "cma = true\n"
      "ring = \"128K\"\n"
      "block = 8192\n"
      "progress_thread = \"off\"\n"
      "progress_cpu = -1\n");
  const Settings settings = loaded();
  EXPECT_TRUE(settings.disable);
  EXPECT_EQ(settings.algorithm, "bcast=binomial");
  EXPECT_EQ(settings.spin_us, 0.25);
  EXPECT_EQ(settings.deadline_s, 10);
  EXPECT_EQ(settings.cma, Switch::on);
  EXPECT_EQ(settings.ring, 128U << 10);
  EXPECT_EQ(settings.block, 8192U);
  EXPECT_EQ(settings.progress_thread, Switch::off);
  EXPECT_EQ(settings.progress_cpu, -1);
}

TEST_F(SettingsTest, TheEnvironmentWinsOverTheFile) {
  write_file("wait = \"spin\"\nlog = \"error\"\n");
  set("TUTTI_WAIT", "sleep");
  EXPECT_EQ(loaded().wait, WaitMode::sleep);
  EXPECT_EQ(loaded().log, LogLevel::error);
}

TEST_F(SettingsTest, EveryWordOfEveryEnumerationIsKnown) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> words = {
      {"TUTTI_LOG", {"quiet", "error", "warn", "info", "debug"}},
      {"TUTTI_WAIT", {"auto", "spin", "yield", "sleep"}},
      {"TUTTI_CMA", {"auto", "on", "off"}},
      {"TUTTI_SEGMENT", {"memfd", "posix"}}};
  for (const auto& [name, values] : words) {
    for (const auto& value : values) {
      set(name, value);
      EXPECT_TRUE(loaded().report.empty());
      EXPECT_EQ(line(name).value, value);
      EXPECT_NE(line(name).type.find(value), std::string::npos);
    }
    ::unsetenv(name.c_str());
  }
}

TEST_F(SettingsTest, CheckTakesItsWordsAndThoseOfABool) {
  for (const char* text : {"0", "off", "no"}) {
    set("TUTTI_CHECK", text);
    EXPECT_EQ(loaded().check, Check::off) << text;
  }
  set("TUTTI_CHECK", "Calls");
  EXPECT_EQ(loaded().check, Check::calls);
  EXPECT_NE(error_of("TUTTI_CHECK", "all").find("0, 1 or calls"), std::string::npos);
}

TEST_F(SettingsTest, CaseAndSpaceAroundDoNotMatter) {
  set("TUTTI_WAIT", " Spin ");
  set("TUTTI_FIXED_ORDER", "ON");
  set("TUTTI_BLOCK", " 64 kib ");
  EXPECT_EQ(loaded().wait, WaitMode::spin);
  EXPECT_EQ(loaded().fixed_order, FixedOrder::on);
  EXPECT_EQ(loaded().block, 65536U);
}

TEST_F(SettingsTest, AFixedOrderMayBeExact) {
  EXPECT_EQ(loaded().fixed_order, FixedOrder::off);
  for (const char* text : {"exact", "EXACT"}) {
    set("TUTTI_FIXED_ORDER", text);
    EXPECT_EQ(loaded().fixed_order, FixedOrder::exact);
  }
  set("TUTTI_FIXED_ORDER", "off");
  EXPECT_EQ(loaded().fixed_order, FixedOrder::off);
}

TEST_F(SettingsTest, TextIsTakenAsItIs) {
  set("TUTTI_REPORT", " with space ");
  EXPECT_EQ(loaded().report, " with space ");
  set("TUTTI_REPORT", "");
  EXPECT_EQ(loaded().report, "");
}

TEST_F(SettingsTest, OtherVariablesAreNoneOfOurBusiness) {
  set("TUTTI", "1");
  set("TUTTIX_WAIT", "nonsense");
  set("tutti_wait", "nonsense");
  set("TUTTI_RUN_ANYTHING", "of the launcher");
  loaded();
}

TEST_F(SettingsTest, AnEmptyFileIsFine) {
  write_file("");
  loaded();
}

// ---- unknown names
// --------------------------------------------------------------------------------

TEST_F(SettingsTest, UnknownVariableNamesTheNearest) {
  EXPECT_EQ(error_of("TUTTI_WIAT", "spin"), "unknown setting TUTTI_WIAT; did you mean TUTTI_WAIT?");
  EXPECT_EQ(error_of("TUTTI_ALGO", "x"), "unknown setting TUTTI_ALGO; did you mean TUTTI_ALG?");
  EXPECT_EQ(error_of("TUTTI_wait", "spin"), "unknown setting TUTTI_wait; did you mean TUTTI_WAIT?");
  EXPECT_EQ(error_of("TUTTI_PROGRESSTHREAD", "on"),
            "unknown setting TUTTI_PROGRESSTHREAD; did you mean TUTTI_PROGRESS_THREAD?");
  EXPECT_EQ(error_of("TUTTI_FIXEDORDER", "on"),
            "unknown setting TUTTI_FIXEDORDER; did you mean TUTTI_FIXED_ORDER?");
}

TEST_F(SettingsTest, VariablesOfModulesAreNoSettings) {
  for (const char* name : {"TUTTI_ROOT", "TUTTI_DIR", "TUTTI_HOME", "TUTTI_VERSION", "TUTTI_BASE",
                           "TUTTI_LIB", "TUTTI_INC", "TUTTI_BIN"}) {
    set(name, "/opt/tutti/1.0");
  }
  set("TUTTI_WAIT", "spin");
  EXPECT_EQ(loaded().wait, WaitMode::spin);
  EXPECT_EQ(error_of_file("root = \"/opt\"\n").substr(0, 24), "FILE:1: unknown setting ");
}

TEST_F(SettingsTest, SharedSettingsAreThoseThatMustBeEqual) {
  const auto value_of = [&](const std::string& name) -> std::string {
    for (const SharedSetting& one : shared_settings(loaded()))
      if (one.name == name) return one.value;
    return "not shared";
  };
  std::size_t shared = 0;
  for (const SettingLine& row : describe_settings()) {
    EXPECT_EQ(value_of(row.name) == "not shared", row.scope == Scope::any) << row.name;
    if (row.scope != Scope::any) ++shared;
    if (row.scope == Scope::equal) EXPECT_EQ(value_of(row.name), row.fallback) << row.name;
  }
  EXPECT_EQ(shared, shared_settings(loaded()).size());
  EXPECT_EQ(value_of("TUTTI_REPORT"), "not set");
  set("TUTTI_REPORT", "a.txt");
  set("TUTTI_MULTICAST", "off");
  EXPECT_EQ(value_of("TUTTI_REPORT"), "set");
  EXPECT_EQ(value_of("TUTTI_MULTICAST"), "off");
}

TEST_F(SettingsTest, UnknownVariableWithoutANearOneNamesTheList) {
  EXPECT_EQ(error_of("TUTTI_SOMETHING_ELSE", "1"),
            "unknown setting TUTTI_SOMETHING_ELSE; `tutti info` lists all settings");
  EXPECT_EQ(error_of("TUTTI_", "1"), "unknown setting TUTTI_; `tutti info` lists all settings");
}

TEST_F(SettingsTest, UnknownKeyNamesTheNearestAsItIsWrittenInTheFile) {
  EXPECT_EQ(error_of_file("\nwiat = 1\n"), "FILE:2: unknown setting wiat; did you mean wait?");
  EXPECT_EQ(error_of_file("TUTTI_WAIT = \"spin\"\n"),
            "FILE:1: unknown setting TUTTI_WAIT; did you mean wait?");
  EXPECT_EQ(error_of_file("zzzzzzzz = 1\n"),
            "FILE:1: unknown setting zzzzzzzz; `tutti info` lists all settings");
  EXPECT_EQ(error_of_file("[tutti]\nwait = \"spin\"\n"),
            "FILE:1: unknown setting tutti; `tutti info` lists all settings");
}

// ---- bad values
// -----------------------------------------------------------------------------------

TEST_F(SettingsTest, BadWordsListTheGoodOnes) {
  EXPECT_EQ(error_of("TUTTI_WAIT", "spinning"),
            "TUTTI_WAIT=spinning: must be auto, spin, yield or sleep");
  EXPECT_EQ(error_of("TUTTI_CMA", "maybe"), "TUTTI_CMA=maybe: must be auto, on or off");
  EXPECT_EQ(error_of("TUTTI_SEGMENT", "sysv"), "TUTTI_SEGMENT=sysv: must be memfd or posix");
  EXPECT_EQ(error_of("TUTTI_DISABLE", "2"), "TUTTI_DISABLE=2: must be 0 or 1");
  EXPECT_EQ(error_of("TUTTI_DISABLE", ""), "TUTTI_DISABLE=: must be 0 or 1");
}

TEST_F(SettingsTest, BadNumbersNameTheRange) {
  const std::string range = ": must be a number from 0 to 1000000";
  for (const char* value : {"-1", "1e7", "ten", "", "nan", "inf", "1 2", "0x10", "1.5.2"}) {
    EXPECT_EQ(error_of("TUTTI_SPIN_US", value), "TUTTI_SPIN_US=" + std::string(value) + range);
  }
  for (const char* value : {"-2", "65536", "1.5", "", "99999999999999999999"}) {
    EXPECT_EQ(
        error_of("TUTTI_PROGRESS_CPU", value),
        "TUTTI_PROGRESS_CPU=" + std::string(value) + ": must be a whole number from -1 to 65535");
  }
}

TEST_F(SettingsTest, BadSizesNameTheRange) {
  const std::string range = ": must be a size from 4KiB to 16MiB in steps of 4KiB";
  for (const char* value : {"0", "4095", "5000", "16M1", "17M", "-4K", "64KB", "K", "",
                            "99999999999999999999", "18446744073709551615T"}) {
    EXPECT_EQ(error_of("TUTTI_BLOCK", value), "TUTTI_BLOCK=" + std::string(value) + range);
  }
}

TEST_F(SettingsTest, TheEndsOfARangeAreInIt) {
  set("TUTTI_BLOCK", "4K");
  set("TUTTI_SPIN_US", "1000000");
  set("TUTTI_PROGRESS_CPU", "65535");
  set("TUTTI_ARENA", "1T");
  set("TUTTI_RING", "1G");
  EXPECT_EQ(loaded().block, 4096U);
  set("TUTTI_BLOCK", "16M");
  EXPECT_EQ(loaded().block, 16U << 20);
}

TEST_F(SettingsTest, SizesMustFitTogether) {
  set("TUTTI_RING", "64K");
  EXPECT_EQ(error_of("TUTTI_BLOCK", "128K"),
            "TUTTI_RING=64KiB: must be at least TUTTI_BLOCK, which is 128KiB");
  ::unsetenv("TUTTI_RING");
  set("TUTTI_RING", "64M");
  EXPECT_EQ(error_of("TUTTI_ARENA", "32M"),
            "TUTTI_ARENA=32MiB: must be at least TUTTI_RING, which is 64MiB");
}

TEST_F(SettingsTest, BadValuesInTheFileNameTheLine) {
  EXPECT_EQ(error_of_file("log = \"info\"\nwait = \"spinning\"\n"),
            "FILE:2: wait = spinning: must be auto, spin, yield or sleep");
  EXPECT_EQ(error_of_file("wait = 3\n"), "FILE:1: wait = 3: must be auto, spin, yield or sleep");
  EXPECT_EQ(error_of_file("progress_cpu = 1.5\n"),
            "FILE:1: progress_cpu = 1.5: must be a whole number from -1 to 65535");
  EXPECT_EQ(error_of_file("disable = [1]\n"), "FILE:1: disable must be 0 or 1");
  EXPECT_EQ(error_of_file("report = 1979-05-27\n"), "FILE:1: report must be text");
  EXPECT_EQ(error_of_file("spin_us = inf\n"),
            "FILE:1: spin_us = inf: must be a number from 0 to 1000000");
}

TEST_F(SettingsTest, ABadValueInTheFileIsAnErrorEvenIfTheEnvironmentWins) {
  set("TUTTI_WAIT", "spin");
  EXPECT_EQ(error_of_file("wait = \"x\"\n"),
            "FILE:1: wait = x: must be auto, spin, yield or sleep");
}

TEST_F(SettingsTest, SeveralErrorsAreCounted) {
  set("TUTTI_LOG", "x");
  set("TUTTI_CMA", "y");
  EXPECT_EQ(error_of_file("a_b = 1\nwait = 5\n"),
            "FILE:1: unknown setting a_b; `tutti info` lists all settings (and 3 more)");
}

TEST_F(SettingsTest, MessagesStayOnOneLineWhateverTheValue) {
  EXPECT_EQ(error_of("TUTTI_WAIT", "a\nb\x1b[1m"),
            "TUTTI_WAIT=a?b?[1m: must be auto, spin, yield or sleep");
  EXPECT_LT(error_of("TUTTI_WAIT", std::string(100000, 'w')).size(), 300U);
  EXPECT_LT(error_of("TUTTI_" + std::string(5000, 'W'), "1").size(), 300U);
  EXPECT_EQ(error_of_file("\"a\\nb\" = 1\n").find('\n'), std::string::npos);
}

// ---- the file itself
// ------------------------------------------------------------------------------

TEST_F(SettingsTest, AFileThatCannotBeReadSaysWhy) {
  set("TUTTI_CONFIG", directory_ + "/none.toml");
  EXPECT_EQ(error(),
            "TUTTI_CONFIG=" + directory_ + "/none.toml: cannot be read: No such file or directory");
  set("TUTTI_CONFIG", directory_);
  EXPECT_EQ(error(), "TUTTI_CONFIG=" + directory_ + ": cannot be read: not a regular file");
  set("TUTTI_CONFIG", "/dev/zero");
  EXPECT_EQ(error(), "TUTTI_CONFIG=/dev/zero: cannot be read: not a regular file");
  set("TUTTI_CONFIG", "");
  EXPECT_EQ(error(), "TUTTI_CONFIG is empty: must be the path of a TOML file");
}

TEST_F(SettingsTest, APipeIsNoFileAndDoesNotBlock) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  set("TUTTI_CONFIG", path_);
  EXPECT_EQ(error(), "TUTTI_CONFIG=" + path_ + ": cannot be read: not a regular file");
}

TEST_F(SettingsTest, AFileThatIsTooLargeIsNotRead) {
  write_file(std::string((std::size_t{1} << 20) + 1, '#'));
  EXPECT_EQ(error(),
            "TUTTI_CONFIG=" + path_ + ": is larger than 1 MiB, so it is not a file of settings");
}

TEST_F(SettingsTest, InvalidTomlNamesThePlace) {
  write_file("wait = \"spin\"\nlog = \n");
  const std::string start = "TUTTI_CONFIG=" + path_ + ": line 2, column ";
  EXPECT_TRUE(error().starts_with(start)) << error();
  EXPECT_NE(error().find(": not valid TOML: "), std::string::npos) << error();
  write_file("wait = 'spin'\nwait = 'yield'\n");
  EXPECT_TRUE(error().starts_with(start)) << error();
  write_file("wait = '\xff\xfe'\n");
  EXPECT_NE(error().find("not valid TOML"), std::string::npos) << error();
  write_file(std::string("wait = 'a\0b'\n", 13));
  EXPECT_NE(error().find("not valid TOML"), std::string::npos) << error();
}

// ---- describing
// -----------------------------------------------------------------------------------

TEST_F(SettingsTest, DescriptionTellsWhereAValueCameFrom) {
  write_file("log = \"info\"\nwait = \"spin\"\n");
  set("TUTTI_WAIT", "sleep");
  EXPECT_EQ(line("TUTTI_LOG").value, "info");
  EXPECT_EQ(line("TUTTI_LOG").source, "file " + path_ + ":1");
  EXPECT_EQ(line("TUTTI_LOG").fallback, "warn");
  EXPECT_EQ(line("TUTTI_WAIT").value, "sleep");
  EXPECT_EQ(line("TUTTI_WAIT").source, "environment");
  EXPECT_EQ(line("TUTTI_RING").value, "0");
  EXPECT_EQ(line("TUTTI_RING").source, "default");
}

TEST_F(SettingsTest, DescriptionShowsBadValuesRaw) {
  set("TUTTI_WAIT", "spinning");
  EXPECT_EQ(line("TUTTI_WAIT").value, "spinning");
  EXPECT_EQ(line("TUTTI_WAIT").source, "environment");
}

TEST_F(SettingsTest, DescriptionIsCompleteAndItsValuesCanBeSet) {
  const auto lines = describe_settings();
  EXPECT_GE(lines.size(), 19U);
  for (const auto& described : lines) {
    EXPECT_TRUE(described.name.starts_with("TUTTI_"));
    EXPECT_FALSE(described.type.empty());
    EXPECT_GT(described.help.size(), 10U) << described.name;
    EXPECT_EQ(described.value, described.fallback);
    EXPECT_EQ(described.source, "default");
    set(described.name, described.fallback);  // what is shown is what may be written
  }
  loaded();
  for (const auto& described : describe_settings()) {
    EXPECT_EQ(described.value, described.fallback) << described.name;
    EXPECT_EQ(described.source, "environment") << described.name;
  }
}

// ---- sizes
// ----------------------------------------------------------------------------------------

TEST(ParseBytes, KnowsTheUnits) {
  const std::vector<std::pair<std::string, std::size_t>> good = {{"0", 0},
                                                                 {"1", 1},
                                                                 {"4096", 4096},
                                                                 {"4096B", 4096},
                                                                 {"64K", 65536},
                                                                 {"64k", 65536},
                                                                 {"64KiB", 65536},
                                                                 {"64 KiB", 65536},
                                                                 {"1M", 1 << 20},
                                                                 {"2GiB", std::size_t{2} << 30},
                                                                 {"3T", std::size_t{3} << 40},
                                                                 {" 7 ", 7},
                                                                 {"0T", 0},
                                                                 {"007", 7}};
  for (const auto& [text, bytes] : good) {
    std::size_t out = 12345;
    EXPECT_TRUE(parse_bytes(text, &out)) << text;
    EXPECT_EQ(out, bytes) << text;
  }
}

TEST(ParseBytes, RefusesTheRestAndLeavesTheResultAlone) {
  for (const char* text : {"", " ", "K", "-1", "+1", "1.5K", "64KB", "64KBi", "64 K iB", "1 2",
                           "1e3", "0x10", "ten", "1P", "1KK", "1Bi", "1iB"}) {
    std::size_t out = 12345;
    EXPECT_FALSE(parse_bytes(text, &out)) << text;
    EXPECT_EQ(out, 12345U) << text;
  }
}

TEST(ParseBytes, DoesNotOverflow) {
  std::size_t out = 0;
  EXPECT_TRUE(parse_bytes("18446744073709551615", &out));
  EXPECT_EQ(out, std::numeric_limits<std::size_t>::max());
  EXPECT_FALSE(parse_bytes("18446744073709551616", &out));
  EXPECT_TRUE(parse_bytes("16777215T", &out));
  EXPECT_EQ(out, std::size_t{16777215} << 40);
  EXPECT_FALSE(parse_bytes("16777216T", &out));
  EXPECT_FALSE(parse_bytes("18014398509481984K", &out));
}

}  // namespace
}  // namespace tutti
