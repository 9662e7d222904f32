#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>

#include "base/settings_audience.hpp"
#include "base/settings_file.hpp"

namespace tutti {
namespace {

using Member =
    std::variant<bool Settings::*, int Settings::*, double Settings::*, std::size_t Settings::*,
                 std::string Settings::*, LogLevel Settings::*, WaitMode Settings::*,
                 Switch Settings::*, FixedOrder Settings::*, SegmentKind Settings::*,
                 Rendezvous Settings::*, Check Settings::*, Recorder Settings::*>;

/// One setting. Its default is the member's initialiser in Settings; its key in the file is the
/// lower-case name.
struct Row {
  std::string_view name;  // without TUTTI_
  Member member;
  Scope scope;
  std::string_view help;
  double least = 0;  // of numbers and sizes, inclusive
  double most = 0;
};

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kGiB = 1024 * kMiB;
constexpr double kTiB = 1024 * kGiB;
constexpr std::size_t kSizeStep = 4096;  // sizes are cut into pages

// In the order of Settings.
constexpr std::array kRows = {
    Row{"DISABLE", &Settings::disable, Scope::equal, "leave everything to the MPI"},
    Row{"ALG", &Settings::algorithm, Scope::equal,
        "algorithms that replace the chosen ones: OP=NAME[:KEY=VALUE...][,OP=NAME...]; the name "
        "mpi leaves the operation to the MPI"},
    Row{"CHOICES", &Settings::choices, Scope::any,
        "file of rules that say which algorithm runs where, as tutti tune --choices writes it; "
        "they come before the built-in rules"},
    Row{"CHOICE", &Settings::choice, Scope::equal,
        "online: while the program runs, its blocking collectives try other algorithms and the "
        "MPI's, and keep the fastest; static: no trials; a path (with a /): online, and the file "
        "keeps what was learnt for the next run"},
    Row{"REPORT", &Settings::report, Scope::equally_set,
        "print at the end what tutti has taken over, where the time went and who was late: 1 for "
        "standard error, or a path; as JSON where it ends in .json, as a page for browsers where "
        "in .html"},
    Row{"REPORT_JSON", &Settings::report_json, Scope::equally_set,
        "write the report as JSON to this path"},
    Row{"LOG", &Settings::log, Scope::any, "which messages appear on standard error"},
    Row{"WAIT", &Settings::wait, Scope::any,
        "how a rank waits; auto: it spins first, then yields, then sleeps"},
    Row{"SPIN_US", &Settings::spin_us, Scope::any,
        "microseconds that a rank spins before it yields the processor; 0: by the number of cores",
        0, 1e6},
    Row{"DEADLINE", &Settings::deadline_s, Scope::any,
        "seconds after which a wait fails and names the missing rank; 0: never", 0, 1e9},
    Row{"STALL", &Settings::stall_s, Scope::any,
        "seconds in one call after which tutti prints what each rank is doing; the "
        "job goes on; 0: never",
        0, 1e9},
    Row{"RECORDER", &Settings::recorder, Scope::any,
        "on: each rank keeps its last calls for tutti trace; exact: with exact times, for two "
        "reads of the clock a call; off: no calls are kept"},
    Row{"RECORDER_DIR", &Settings::recorder_dir, Scope::any,
        "folder for the last calls of each rank; they are written when the program ends (also by "
        "a signal or MPI_Abort), when a rank is lost, and when a call has lasted for TUTTI_STALL"},
    Row{"CMA", &Settings::cma, Scope::equal,
        "cross-memory attach for large buffers; on: fail where it is not permitted"},
    Row{"SEGMENT", &Settings::segment, Scope::equal,
        "kind of shared memory; memfd: without a name; posix: in /dev/shm, unlinked at once"},
    Row{"ARENA", &Settings::arena, Scope::equal,
        "address space that each rank reserves; it is used piece by piece", 16 * kMiB, kTiB},
    Row{"RING", &Settings::ring, Scope::equal,
        "shared blocks of each rank, through which large messages pass; 0: the cache that a core "
        "has for itself, or twice that where the shared cache keeps what it gives up; from 1 to 4 "
        "MiB",
        0, kGiB},
    Row{"BLOCK", &Settings::block, Scope::equal, "size of a shared block", 4 * kKiB, 16 * kMiB},
    Row{"FIXED_ORDER", &Settings::fixed_order, Scope::equal,
        "1: reductions run in one fixed order, so that their bits do not depend on where ranks "
        "run; exact: sums of floating-point numbers are also rounded only once, so that their "
        "bits do not depend on the number of ranks either"},
    Row{"PROGRESS_THREAD", &Settings::progress_thread, Scope::any,
        "thread that progresses non-blocking collectives; auto: from the first of them on, and "
        "where "
        "ranks wait for each other's processors only for those that are away for 10 ms or more"},
    Row{"PROGRESS_CPU", &Settings::progress_cpu, Scope::any,
        "processor for the threads that progress operations and the network; -1: any that the "
        "process has at MPI_Init",
        -1, 65535},
    Row{"RENDEZVOUS", &Settings::rendezvous, Scope::equal,
        "protocol of large messages; auto: read_interrupt, which overlaps on both sides"},
    Row{"EAGER", &Settings::eager, Scope::equal,
        "largest message that is sent before its receive is known; on a node at most 128 KiB from "
        "9 ranks on, and 64 KiB from 33 ranks on; between nodes at most 16 KiB, over sockets "
        "128 KiB from 17 ranks elsewhere on, and 64 KiB from 65 on",
        0, 256 * kKiB},
    Row{"UNEXPECTED", &Settings::unexpected, Scope::equal,
        "memory that each rank gives each sender for unexpected messages", 0, kGiB},
    Row{"P2P", &Settings::p2p, Scope::equal,
        "take over messages too: send, receive, probe and what belongs to them; 1 and 0 are on and "
        "off; auto: where the MPI takes three times as long for 8 bytes, which MPI_Init measures, "
        "on one node with a processor for each rank and without MPI_THREAD_MULTIPLE"},
    Row{"NET", &Settings::net, Scope::equal,
        "collectives between nodes; off: only within a node; on: fail where no network opens"},
    Row{"NET_PROVIDER", &Settings::net_provider, Scope::equal,
        "network: verbs, or a provider of libfabric; unset: verbs where there is an RDMA device, "
        "else tcp (tcp;ofi_rxm before libfabric 1.18)"},
    Row{"NET_INTERFACE", &Settings::net_interface, Scope::any,
        "network interface; unset: the first one that is not the loopback"},
    Row{"NET_TIMEOUT", &Settings::net_timeout_s, Scope::any,
        "seconds after which a node that does not answer is lost", 0.1, 1e6},
    Row{"MULTICAST", &Settings::multicast, Scope::equal,
        "broadcasts between nodes by multicast; auto: where a trial at the start succeeds; on: "
        "without a trial, and fail where a node cannot take part"},
    Row{"MULTICAST_RECEIVES", &Settings::multicast_receives, Scope::equal,
        "receives that each member of a multicast group posts in advance; on IP networks the "
        "receive buffer holds at least twice as many packets",
        1, 65536},
    Row{"DCP", &Settings::dcp, Scope::equal,
        "dedicated collective processors beside the program's: how many on each node (1), or "
        "their ratio to the program's processes (1:4)"},
    Row{"DCP_FROM_JOB", &Settings::dcp_from_job, Scope::equal,
        "take the dedicated processors from the job's own processes instead of starting more "
        "(tutti run --dcp-from-job)"},
    Row{"DCP_CPUS", &Settings::dcp_cpus, Scope::any,
        "CPUs that the dedicated processors of a node have for themselves, such as 7 or 6,7; "
        "unset: those that the program's processes leave free"},
    Row{"LIBFABRIC", &Settings::libfabric, Scope::any,
        "path of the libfabric.so.1 to open where the MPI has not brought one"},
    Row{"NODE", &Settings::node, Scope::any,
        "name of this rank's node: ranks with different names communicate over the network, even "
        "on one machine"},
    Row{"TOPOLOGY", &Settings::topology, Scope::equal,
        "a made-up machine on which the ranks of a node appear to run, such as \"package:2 numa:1 "
        "l3:4 core:8\": one rank on each core, or dealt out to the packages (scattered)"},
    Row{"FAULT", &Settings::fault, Scope::any, "faults to inject: see src/fabric/wrap/fault.hpp"},
    Row{"TRACE", &Settings::trace, Scope::any, "path of a trace of the fabric's operations"},
    Row{"CHECK", &Settings::check, Scope::equal,
        "calls: report ranks that pass different things to one collective, and buffers "
        "that change while a call is pending; 1: check the fabric contract at run time"},
};
constexpr std::size_t kRowCount = kRows.size();
constexpr std::string_view kForTests[] = {"NODE", "TOPOLOGY", "FAULT", "TRACE"};

constexpr std::string_view kPrefix = "TUTTI_";
constexpr std::string_view kConfig = "TUTTI_CONFIG";
constexpr std::string_view kInternal = "TUTTI_RUN_";  // set by `tutti run` for its own use

// Set by modules, package managers and build systems to say where tutti lies: no settings.
constexpr std::string_view kPlaces[] = {
    "ROOT",    "DIR",         "HOME",   "BASE",    "PREFIX", "PATH",        "BIN",
    "LIB",     "LIB64",       "LIBDIR", "LIB_DIR", "INC",    "INCLUDE",     "INCDIR",
    "INC_DIR", "INCLUDE_DIR", "MAN",    "DOC",     "SHARE",  "INSTALL_DIR", "VERSION"};

// The words of each enumeration, in the order of its enumerators.
template <class Enum>
constexpr std::array<std::string_view, 0> kWords = {};
template <>
constexpr std::array<std::string_view, 5> kWords<LogLevel> = {"quiet", "error", "warn", "info",
                                                              "debug"};
template <>
constexpr std::array<std::string_view, 4> kWords<WaitMode> = {"auto", "spin", "yield", "sleep"};
template <>
constexpr std::array<std::string_view, 3> kWords<Switch> = {"auto", "on", "off"};
template <>
constexpr std::array<std::string_view, 3> kWords<FixedOrder> = {"0", "1", "exact"};
template <>
constexpr std::array<std::string_view, 4> kWords<Rendezvous> = {"auto", "write", "read",
                                                                "read_interrupt"};
template <>
constexpr std::array<std::string_view, 3> kWords<Check> = {"0", "1", "calls"};
template <>
constexpr std::array<std::string_view, 3> kWords<Recorder> = {"on", "exact", "off"};
template <>
constexpr std::array<std::string_view, 2> kWords<SegmentKind> = {"memfd", "posix"};

// ---- text ------------------------------------------------------------------------------------

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A user's text as it may stand in a message: one line, not longer than a message should be.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  std::string out(text.substr(0, kLongest));
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text.size() > kLongest ? out + "..." : out;
}

std::string size_text(std::size_t bytes) {
  constexpr std::string_view kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + std::string(kUnits[unit]);
}

std::string number_text(double number) {
  char text[400];  // enough for any double in fixed notation
  const auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr;
  return std::string(text, end);
}

/// Edits (insert, delete, replace, swap neighbours) that lead from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// ---- values ----------------------------------------------------------------------------------

bool parse_value(std::string_view text, bool* out) {
  constexpr std::string_view kFalse[] = {"0", "false", "no", "off"};
  constexpr std::string_view kTrue[] = {"1", "true", "yes", "on"};
  const std::string word = lower(trim(text));
  const bool yes = std::ranges::find(kTrue, word) != std::end(kTrue);
  if (!yes && std::ranges::find(kFalse, word) == std::end(kFalse)) return false;
  *out = yes;
  return true;
}

template <class Enum>
requires std::is_enum_v<Enum>
bool parse_value(std::string_view text, Enum* out) {
  const auto found = std::ranges::find(kWords<Enum>, lower(trim(text)));
  if (found == kWords<Enum>.end()) return false;
  *out = static_cast<Enum>(found - kWords<Enum>.begin());
  return true;
}

/// The words of a switch, and those of a bool.
bool parse_value(std::string_view text, Switch* out) {
  if (parse_value<Switch>(text, out)) return true;
  bool on = false;
  if (!parse_value(text, &on)) return false;
  *out = on ? Switch::on : Switch::off;
  return true;
}

/// Its words, and those of a bool.
bool parse_value(std::string_view text, Check* out) {
  if (parse_value<Check>(text, out)) return true;
  bool on = false;
  if (!parse_value(text, &on)) return false;
  *out = on ? Check::contract : Check::off;
  return true;
}

/// A bool, or the word beyond.
bool parse_value(std::string_view text, FixedOrder* out) {
  if (parse_value<FixedOrder>(text, out)) return true;
  bool on = false;
  if (!parse_value(text, &on)) return false;
  *out = on ? FixedOrder::on : FixedOrder::off;
  return true;
}

template <class Number>
requires std::is_same_v<Number, int> || std::is_same_v<Number, double>
bool parse_value(std::string_view text, Number* out) {
  text = trim(text);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  *out = number;
  return true;
}

bool parse_value(std::string_view text, std::size_t* out) {
  return parse_bytes(std::string(text), out);
}

bool parse_value(std::string_view text, std::string* out) {
  *out = text;
  return true;
}

/// In the row's range; text, words and bools always are.
template <class T>
bool allowed(const Row& row, const T& value) {
  if constexpr (std::is_same_v<T, int> || std::is_same_v<T, double>) {
    return value >= row.least && value <= row.most;  // false for NaN
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    const auto number = static_cast<double>(value);
    return number >= row.least && number <= row.most && value % kSizeStep == 0;
  } else {
    return true;
  }
}

template <class T>
std::string format_value(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_same_v<T, int>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return number_text(value);
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    return size_text(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    return std::string(kWords<T>[static_cast<std::size_t>(value)]);
  }
}

/// What may stand in place of the value: "auto, on or off", "a size from 4KiB to 16MiB".
template <class T>
std::string expected_value(const Row& row) {
  if constexpr (std::is_same_v<T, bool>) {
    return "0 or 1";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    return "a size from " + size_text(static_cast<std::size_t>(row.least)) + " to " +
           size_text(static_cast<std::size_t>(row.most)) + " in steps of " + size_text(kSizeStep);
  } else if constexpr (std::is_enum_v<T>) {
    std::string list;
    for (std::size_t i = 0; i < kWords<T>.size(); ++i) {
      if (i != 0) list += i + 1 == kWords<T>.size() ? " or " : ", ";
      list += kWords<T>[i];
    }
    return list;
  } else {
    return (std::is_same_v<T, int> ? "a whole number from " : "a number from ") +
           number_text(row.least) + " to " + number_text(row.most);
  }
}

template <class Function>
auto with_member(const Row& row, Function&& function) {
  return std::visit(
      [&]<class T>(T Settings::*member) { return function(std::type_identity<T>{}, member); },
      row.member);
}

bool assign(const Row& row, std::string_view text, Settings* settings) {
  return with_member(row, [&]<class T>(std::type_identity<T>, T Settings::*member) {
    T value{};
    if (!parse_value(text, &value) || !allowed(row, value)) return false;
    settings->*member = std::move(value);
    return true;
  });
}

std::string expected(const Row& row) {
  return with_member(
      row, [&]<class T>(std::type_identity<T>, T Settings::*) { return expected_value<T>(row); });
}

std::string format(const Row& row, const Settings& settings) {
  return with_member(row, [&]<class T>(std::type_identity<T>, T Settings::*member) {
    return format_value(settings.*member);
  });
}

// ---- names -----------------------------------------------------------------------------------

/// The row of a setting, by its lower-case key; kRowCount when there is none.
std::size_t find_row(std::string_view key) {
  return static_cast<std::size_t>(
      std::ranges::find_if(kRows, [&](const Row& row) { return lower(row.name) == key; }) -
      kRows.begin());
}

/// "; did you mean X?" when a name is near, else where the list is. `spell` makes of a row's name
/// what the user would have to write.
template <class Spell>
std::string hint(std::string_view name, Spell&& spell) {
  std::string key = lower(name);
  if (key.starts_with(lower(kPrefix))) key.erase(0, kPrefix.size());
  const Row* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(1, key.size() / 3) + 1;
  for (const Row& row : kRows) {
    const std::size_t distance = edit_distance(key, lower(row.name));
    if (distance < least) {
      least = distance;
      nearest = &row;
    }
  }
  if (nearest == nullptr) return "; `tutti info` lists all settings";
  return "; did you mean " + spell(nearest->name) + "?";
}

std::string environment_name(std::string_view name) {
  return std::string(kPrefix) + std::string(name);
}

// ---- loading ---------------------------------------------------------------------------------

/// What environment and file say, with everything that is wrong in them.
struct Loaded {
  Settings settings;
  std::array<std::string, kRowCount> source;              // empty: default
  std::array<std::optional<std::string>, kRowCount> bad;  // raw text that was not accepted
  std::vector<std::string> problems;                      // one line each
};

/// `where` introduces the message: "TUTTI_WAIT=x" or "FILE:3: wait = x".
void take(std::size_t index, std::string_view text, std::string source, const std::string& where,
          Loaded* loaded) {
  const Row& row = kRows[index];
  loaded->source[index] = std::move(source);
  if (assign(row, text, &loaded->settings)) {
    loaded->bad[index].reset();
    return;
  }
  loaded->bad[index] = std::string(text);
  loaded->problems.push_back(where + ": must be " + expected(row));
}

void load_file(const std::string& path, Loaded* loaded) {
  std::vector<FileEntry> entries;
  std::string why;
  if (!read_settings_file(path, &entries, &why)) {
    loaded->problems.push_back(std::string(kConfig) + "=" + shown(path) + ": " + shown(why));
    return;
  }
  for (const FileEntry& entry : entries) {
    const std::string place = shown(path) + ":" + std::to_string(entry.line);
    const std::size_t index = find_row(entry.key);
    if (index == kRowCount) {
      loaded->problems.push_back(
          place + ": unknown setting " + shown(entry.key) +
          hint(entry.key, [](std::string_view name) { return lower(name); }));
    } else if (!entry.scalar) {
      loaded->problems.push_back(place + ": " + entry.key + " must be " + expected(kRows[index]));
    } else {
      take(index, entry.text, "file " + path + ":" + std::to_string(entry.line),
           place + ": " + entry.key + " = " + shown(entry.text), loaded);
    }
  }
}

void load_environment(Loaded* loaded) {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view line = *variable;
    if (!line.starts_with(kPrefix)) continue;
    const std::string_view name = line.substr(0, line.find('='));
    if (name == kConfig || name.starts_with(kInternal)) continue;
    const std::string_view text = name.size() < line.size() ? line.substr(name.size() + 1) : "";
    const std::string_view bare = name.substr(kPrefix.size());
    if (std::ranges::find(kPlaces, bare) != std::end(kPlaces)) continue;
    const auto row = std::ranges::find(kRows, bare, &Row::name);
    if (row == kRows.end()) {
      loaded->problems.push_back("unknown setting " + shown(name) + hint(name, environment_name));
    } else {
      take(static_cast<std::size_t>(row - kRows.begin()), text, "environment", shown(line), loaded);
    }
  }
}

/// Values that are right one by one but not together.
void check_together(Loaded* loaded) {
  const auto at_least = [&](std::string_view larger, std::size_t size, std::string_view smaller,
                            std::size_t bound) {
    if (size >= bound) return;
    loaded->problems.push_back(environment_name(larger) + "=" + size_text(size) +
                               ": must be at least " + environment_name(smaller) + ", which is " +
                               size_text(bound));
  };
  const Settings& settings = loaded->settings;
  if (settings.ring != 0) at_least("RING", settings.ring, "BLOCK", settings.block);
  at_least("ARENA", settings.arena, "RING", settings.ring);
}

Loaded load() {
  Loaded loaded;
  const char* path = std::getenv(kConfig.data());
  if (path != nullptr && *path == '\0') {
    loaded.problems.push_back(std::string(kConfig) + " is empty: must be the path of a TOML file");
  } else if (path != nullptr) {
    load_file(path, &loaded);
  }
  load_environment(&loaded);
  if (loaded.problems.empty()) check_together(&loaded);
  return loaded;
}

}  // namespace

Status load_settings(Settings* out, std::string* message) {
  Loaded loaded = load();
  if (loaded.problems.empty()) {
    *out = std::move(loaded.settings);
    return Status::success();
  }
  *message = loaded.problems.front();
  if (loaded.problems.size() > 1) {
    *message += " (and " + std::to_string(loaded.problems.size() - 1) + " more)";
  }
  return Status::error(Code::invalid_argument, "a setting is wrong");
}

std::vector<SettingLine> describe_settings() {
  const Loaded loaded = load();
  const Settings defaults;
  std::vector<SettingLine> lines;
  lines.reserve(kRowCount);
  for (std::size_t i = 0; i < kRowCount; ++i) {
    const Row& row = kRows[i];
    lines.push_back({environment_name(row.name), expected(row), format(row, defaults),
                     loaded.bad[i] ? shown(*loaded.bad[i]) : format(row, loaded.settings),
                     loaded.source[i].empty() ? "default" : loaded.source[i], std::string(row.help),
                     row.scope});
  }
  return lines;
}

std::vector<SharedSetting> shared_settings(const Settings& settings) {
  std::vector<SharedSetting> shared;
  for (const Row& row : kRows) {
    if (row.scope == Scope::any) continue;
    std::string value = format(row, settings);
    if (row.scope == Scope::equally_set) value = value.empty() ? "not set" : "set";
    shared.push_back({environment_name(row.name), std::move(value)});
  }
  return shared;
}

bool is_for_tests(std::string_view name) noexcept {
  return name.starts_with(kPrefix) &&
         std::ranges::find(kForTests, name.substr(kPrefix.size())) != std::end(kForTests);
}

bool parse_bytes(const std::string& text, std::size_t* out) {
  const std::string word = lower(trim(text));
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{}) return false;  // no digits, or too large
  std::string_view unit = trim(std::string_view(end, word.data() + word.size()));

  constexpr std::string_view kScales = "kmgt";
  unsigned shift = 0;
  if (const auto scale = unit.empty() ? kScales.npos : kScales.find(unit.front());
      scale != kScales.npos) {
    shift = 10 * (static_cast<unsigned>(scale) + 1);
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "ib") return false;  // "KB" would be 1000 to some
  } else if (!unit.empty() && unit != "b") {
    return false;
  }
  if (number > std::numeric_limits<std::size_t>::max() >> shift) return false;
  *out = number << shift;
  return true;
}

}  // namespace tutti
