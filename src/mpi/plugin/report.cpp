#include "mpi/plugin/report.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/call_site.hpp"
#include "mpi/plugin/profiling.hpp"
#include "mpi/plugin/split.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/report/summary.hpp"
#include "select/kept.hpp"
#include "team/cast_watch.hpp"

namespace tutti::mpi {
namespace {

constexpr const char* kReasonNames[] = {"",
                                        "MPI (communicator)",
                                        "MPI (user operator)",
                                        "MPI (no kernel)",
                                        "MPI (TUTTI_ALG)",
                                        "MPI (TUTTI_CHOICES)",
                                        "MPI (built-in choices)",
                                        "MPI (measured)",
                                        "MPI (on trial)",
                                        "MPI (nobody)",
                                        "MPI (arguments)",
                                        "MPI (memory)",
                                        "MPI (one rank)",
                                        "MPI (intercommunicator)",
                                        "MPI (other world)",
                                        "MPI (one-sided)",
                                        "MPI (files)"};
static_assert(std::size(kReasonNames) == static_cast<std::size_t>(Reason::count_));

struct Counts {
  std::uint64_t calls = 0, bytes = 0;
  double seconds = 0;
};

// One rank's counts by the addresses of the two static strings. Guarded by `mutex`.
struct Row {
  const char* call;
  const char* algorithm;
  Counts counts;
};
std::vector<Row> rows;
// Time in calls that complete requests, by call and place in the program. Guarded by `mutex`.
std::map<std::pair<const char*, const void*>, Counts> waits;
std::mutex mutex;

void count(const char* call, const char* algorithm, std::size_t bytes, double seconds) noexcept {
  std::lock_guard lock(mutex);
  for (Row& row : rows) {
    if (row.call == call && row.algorithm == algorithm) {
      row.counts.calls += 1;
      row.counts.bytes += bytes;
      row.counts.seconds += seconds;
      return;
    }
  }
  rows.push_back({call, algorithm, {1, bytes, seconds}});
}

constexpr char kWaitMark = '@';  // begins what stands for an algorithm in rows of waits

using Key = std::pair<std::string, std::string>;  // call, algorithm
struct Total {
  Counts counts;
  double sum = 0;  // of the seconds of all ranks
  int ranks = 0;
};
using Totals = std::map<Key, Total>;

std::string serialise() {
  std::string text;
  char line[256];
  for (const Row& row : rows) {
    std::snprintf(line, sizeof line, "%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%.9g\n", row.call,
                  row.algorithm, row.counts.calls, row.counts.bytes, row.counts.seconds);
    text += line;
  }
  for (const auto& [key, counts] : waits) {
    std::snprintf(line, sizeof line, "\t%" PRIu64 "\t0\t%.9g\n", counts.calls, counts.seconds);
    text += std::string(key.first) + '\t' + kWaitMark + describe_site(key.second) + line;
  }
  return text;
}

void add_lines(const char* text, Totals* totals) {
  while (*text != '\0') {
    const char* end = std::strchr(text, '\n');
    const std::string line(text, end);
    const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
    Counts counts;
    std::sscanf(line.c_str() + second + 1, "%" SCNu64 "\t%" SCNu64 "\t%lg", &counts.calls,
                &counts.bytes, &counts.seconds);
    Total& total = (*totals)[{line.substr(0, first), line.substr(first + 1, second - first - 1)}];
    total.counts.calls += counts.calls;
    total.counts.bytes += counts.bytes;
    total.counts.seconds = std::max(total.counts.seconds, counts.seconds);
    total.sum += counts.seconds;
    total.ranks += 1;
    text = end + 1;
  }
}

// Everybody's counts on rank 0.
Totals gather() {
  const std::string mine = serialise();
  int length = static_cast<int>(mine.size()) + 1, longest = 0;
  native.Allreduce(&length, &longest, 1, MPI_INT, MPI_MAX, state.report_comm);
  const auto slot = static_cast<std::size_t>(longest);
  std::vector<char> send(slot, '\0');
  std::copy(mine.begin(), mine.end(), send.begin());
  std::vector<char> all(state.rank == 0 ? slot * static_cast<std::size_t>(state.size) : 1);
  native.Gather(send.data(), longest, MPI_BYTE, all.data(), longest, MPI_BYTE, 0,
                state.report_comm);
  Totals totals;
  if (state.rank != 0) return totals;
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.size); ++i) {
    add_lines(all.data() + i * slot, &totals);
  }
  return totals;
}

// What the dedicated processors have done, on rank 0; each is spoken for by one of its ranks.
std::vector<ProcessorCounts> gather_processors() {
  std::vector<ProcessorCounts> all;
  if (!state.processors && !split_off()) return all;
  ProcessorCounts mine;
  if (!state.job->processor_counts(&mine)) mine = ProcessorCounts{};
  const int bytes = static_cast<int>(sizeof mine);
  all.resize(state.rank == 0 ? static_cast<std::size_t>(state.size) : 1);
  native.Gather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, state.report_comm);
  std::erase_if(all, [](const ProcessorCounts& one) { return one.processor < 0; });
  return all;
}

// What became of broadcasts by multicast, on rank 0. Each member of a team counts its broadcasts
// and what surveys decided, so the rank that counted most is right; repairs are each member's own.
CastTotals gather_casts() {
  CastTotals mine = state.job ? state.job->cast_totals() : CastTotals{};
  const int bytes = static_cast<int>(sizeof mine);
  std::vector<CastTotals> all(state.rank == 0 ? static_cast<std::size_t>(state.size) : 1);
  native.Gather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, state.report_comm);
  CastTotals sum;
  for (const CastTotals& one : all) {
    sum.broadcasts = std::max(sum.broadcasts, one.broadcasts);
    sum.by_tree = std::max(sum.by_tree, one.by_tree);
    sum.left = std::max(sum.left, one.left);
    sum.resumed = std::max(sum.resumed, one.resumed);
    sum.fragments += one.fragments;
    sum.repaired += one.repaired;
  }
  return sum;
}

std::string casts_table(const CastTotals& casts) {
  if (casts.broadcasts + casts.by_tree == 0) return "";
  char line[320];
  std::snprintf(line, sizeof line,
                "multicast: %" PRIu64 " broadcasts, %" PRIu64 " of %" PRIu64
                " fragments repaired by neighbours; left %" PRIu64 " times, resumed %" PRIu64
                " times, %" PRIu64 " broadcasts by a tree meanwhile\n",
                casts.broadcasts, casts.repaired, casts.fragments, casts.left, casts.resumed,
                casts.by_tree);
  return line;
}

std::string casts_json(const CastTotals& casts) {
  char text[320];
  std::snprintf(text, sizeof text,
                ", \"multicast\": {\"broadcasts\": %" PRIu64 ", \"fragments\": %" PRIu64
                ", \"repaired\": %" PRIu64 ", \"left\": %" PRIu64 ", \"resumed\": %" PRIu64
                ", \"by_tree\": %" PRIu64 "}",
                casts.broadcasts, casts.fragments, casts.repaired, casts.left, casts.resumed,
                casts.by_tree);
  return text;
}

// Times of one processor in microseconds, and how much of the run it was at work.
struct ProcessorTimes {
  double waited, served, busy;
  explicit ProcessorTimes(const ProcessorCounts& one) {
    const double count = std::max<double>(1, static_cast<double>(one.collectives));
    waited = static_cast<double>(one.waited_ns) * 1e-3 / count;
    served = static_cast<double>(one.served_ns) * 1e-3 / count;
    busy = static_cast<double>(one.served_ns) * 1e-9 / std::max(1e-9, now() - state.began);
  }
};

// What the program would have done with these cores itself, in the `run` seconds that it took.
std::string better_use(const Totals& totals, std::size_t processors, double run) {
  double offloaded = 0;
  for (const auto& [key, total] : totals) {
    if (key.second == "dcp") offloaded += total.counts.seconds;
  }
  const double computed = std::max(0.0, run - offloaded);
  const auto more = static_cast<double>(processors);
  const double saved = computed * more / (static_cast<double>(state.size) + more);
  char line[320];
  std::snprintf(line, sizeof line,
                "%zu more processes of the program, were it to scale perfectly, would save %.3f s "
                "of the %.3f s "
                "that it spent outside offloaded calls; these took %.3f s. The cores serve it "
                "better as its own where "
                "offloading has saved less than that (tutti tune --dcp --app says)\n",
                processors, saved, computed, offloaded);
  return line;
}

std::string processors_table(const Totals& totals, const std::vector<ProcessorCounts>& all,
                             double run) {
  std::string text;
  char line[320];
  for (const ProcessorCounts& one : all) {
    const ProcessorTimes times(one);
    std::snprintf(
        line, sizeof line,
        "dedicated processor %d: %d ranks, %" PRIu64 " requests, %" PRIu64
        " collectives, at most %" PRIu64 " at once; woken %" PRIu64
        " times; %.1f us from first to last arrival, %.1f us from there to the last answer, "
        "%.1f %% of the time at work\n",
        one.processor - state.size, one.apps, one.requests, one.collectives, one.longest_queue,
        one.woken, times.waited, times.served, 100 * times.busy);
    text += line;
  }
  return all.empty() ? text : text + better_use(totals, all.size(), run);
}

std::string processors_json(const std::vector<ProcessorCounts>& all) {
  std::string text = ", \"processors\": [";
  char line[320];
  for (const ProcessorCounts& one : all) {
    const ProcessorTimes times(one);
    std::snprintf(
        line, sizeof line,
        "%s\n  {\"processor\": %d, \"apps\": %d, \"requests\": %" PRIu64
        ", \"collectives\": %" PRIu64 ", \"longest_queue\": %" PRIu64 ", \"woken\": %" PRIu64
        ", \"arrival_us\": %.3f, \"service_us\": %.3f, \"busy\": %.4f}",
        &one == all.data() ? "" : ",", one.processor - state.size, one.apps, one.requests,
        one.collectives, one.longest_queue, one.woken, times.waited, times.served, times.busy);
    text += line;
  }
  return text + "]";
}

bool is_wait(const Key& key) { return key.second.front() == kWaitMark; }

// The longest waits first.
std::vector<std::pair<Key, Total>> sorted_waits(const Totals& totals) {
  std::vector<std::pair<Key, Total>> found;
  std::copy_if(totals.begin(), totals.end(), std::back_inserter(found),
               [](const auto& row) { return is_wait(row.first); });
  std::stable_sort(found.begin(), found.end(), [](const auto& left, const auto& right) {
    return left.second.sum > right.second.sum;
  });
  return found;
}

std::string wait_table(const Totals& totals) {
  const auto found = sorted_waits(totals);
  if (found.empty()) return "";
  char line[600];
  std::snprintf(line, sizeof line,
                "time waiting for requests, by call site\n%-28s %12s %12s %12s  %s\n", "call",
                "calls", "slowest (s)", "all (s)", "site");
  std::string text = line;
  for (const auto& [key, total] : found) {
    std::snprintf(line, sizeof line, "%-28s %12" PRIu64 " %12.6f %12.6f  %s\n", key.first.c_str(),
                  total.counts.calls, total.counts.seconds, total.sum, key.second.c_str() + 1);
    text += line;
  }
  return text;
}

// What trials in the program have shown (src/select/online.hpp), as rank 0 has seen them.
std::string trials_table() {
  if (!state.job || state.job->learnt().empty()) return "";
  char line[320];
  std::snprintf(line, sizeof line, "trials\n%-20s %6s %-6s %25s  %-24s %s\n", "collective", "ranks",
                "on", "bytes", "taken", "against");
  std::string text = line;
  for (const Learnt& one : state.job->learnt()) {
    const std::string taken = rule_text(one.taken), other = rule_text(one.against);
    const std::string bytes = std::to_string(one.least) + ".." + std::to_string(one.most);
    std::snprintf(line, sizeof line,
                  "%-20s %6d %-6s %25s  %-24s %s, which took %.2f times as long "
                  "(trials: %d)\n",
                  name(one.coll), one.size, one.place == Where::Place::node ? "node" : "nodes",
                  bytes.c_str(), taken.c_str(), other.c_str(), one.ratio, one.trials);
    text += line;
  }
  return text;
}

std::string trials_json() {
  std::string text = ", \"trials\": [";
  const char* separator = "\n  ";
  char line[320];
  const std::vector<Learnt> none;
  for (const Learnt& one : state.job ? state.job->learnt() : none) {
    std::snprintf(line, sizeof line,
                  "{\"collective\": \"%s\", \"ranks\": %d, \"one_node\": %s, \"least_bytes\": %zu, "
                  "\"most_bytes\": %zu, \"taken\": \"%s\", \"against\": \"%s\", \"ratio\": %.4g, "
                  "\"trials\": %d}",
                  name(one.coll), one.size, one.place == Where::Place::node ? "true" : "false",
                  one.least, one.most, rule_text(one.taken).c_str(), rule_text(one.against).c_str(),
                  one.ratio, one.trials);
    text += separator;
    text += line;
    separator = ",\n  ";
  }
  return text + "]";
}

/// What all ranks have counted, on rank 0.
struct Gathered {
  Totals totals;
  std::vector<ProcessorCounts> processors;
  CastTotals casts;
  report::Summary summary;
};

std::string table(const Gathered& all) {
  const Totals& totals = all.totals;
  char line[256];
  std::snprintf(line, sizeof line,
                "tutti %s on %s, %d ranks: calls and bytes of all ranks, time of the slowest\n",
                TUTTI_VERSION, library_version().c_str(), state.size);
  std::string text = line;
  std::snprintf(line, sizeof line, "%-28s %-24s %12s %16s %12s\n", "call", "algorithm", "calls",
                "bytes", "seconds");
  text += line;
  for (const auto& [key, total] : totals) {
    if (is_wait(key)) continue;
    std::snprintf(line, sizeof line, "%-28s %-24s %12" PRIu64 " %16" PRIu64 " %12.6f\n",
                  key.first.c_str(), key.second.c_str(), total.counts.calls, total.counts.bytes,
                  total.counts.seconds);
    text += line;
  }
  if (totals.empty()) text += "no collective was called\n";
  return text + trials_table() + casts_table(all.casts) + wait_table(totals) +
         processors_table(totals, all.processors, all.summary.run) + report::text_of(all.summary);
}

// The schema is described in docs/report.md.
std::string json(const Gathered& all) {
  using report::quoted;
  const Totals& totals = all.totals;
  std::string text = "{\"tutti\": " + quoted(TUTTI_VERSION) +
                     ", \"mpi\": " + quoted(library_version()) +
                     ", \"program\": " + quoted(program_invocation_short_name) +
                     ", \"ranks\": " + std::to_string(state.size) +
                     ", \"seconds\": " + std::to_string(all.summary.run) + ", \"rows\": [";
  const char* separator = "\n  ";
  char line[256];
  for (const auto& [key, total] : totals) {
    if (is_wait(key)) continue;
    const bool taken = key.second.rfind("MPI (", 0) != 0;
    std::snprintf(line, sizeof line,
                  ", \"ranks\": %d, \"calls\": %" PRIu64 ", \"bytes\": %" PRIu64
                  ", \"seconds\": %.9g}",
                  total.ranks, total.counts.calls, total.counts.bytes, total.counts.seconds);
    text += separator;
    text += "{\"call\": " + quoted(key.first) + ", \"algorithm\": " + quoted(key.second) +
            ", \"tutti\": " + (taken ? "true" : "false") + line;
    separator = ",\n  ";
  }
  text += "], \"waits\": [";
  separator = "\n  ";
  for (const auto& [key, total] : sorted_waits(totals)) {
    std::snprintf(line, sizeof line,
                  ", \"ranks\": %d, \"calls\": %" PRIu64
                  ", \"seconds\": %.9g, \"seconds_all\": %.9g}",
                  total.ranks, total.counts.calls, total.counts.seconds, total.sum);
    text += separator;
    text +=
        "{\"call\": " + quoted(key.first) + ", \"site\": " + quoted(key.second.substr(1)) + line;
    separator = ",\n  ";
  }
  text += "]";
  text += trials_json();
  text += casts_json(all.casts);
  if (!all.processors.empty()) text += processors_json(all.processors);
  text += ", \"profile\": " +
          (all.summary.recorded > 0 ? report::json_of(all.summary) : std::string("null"));
  return text + "}\n";
}

/// As the name of its file wants it.
std::string in_form_of(std::string_view path, const Gathered& all) {
  if (path.ends_with(".html")) return report::page_of(json(all));
  return path.ends_with(".json") ? json(all) : table(all);
}

// "on 2 nodes (network tcp)".
std::string place_text() {
  const Place& place = state.job->place();
  if (place.nodes == 0) return "within each node (no network between nodes)";
  if (place.nodes == 1) return "on one node";
  return "on " + std::to_string(place.nodes) + " nodes (network " + place.network + ")";
}

// "MPICH 5.0.2": MPICH puts a word between.
std::string product() {
  std::string text = library_version();
  constexpr std::string_view kWord = " Version:";
  const std::size_t at = text.find(kWord);
  if (at == std::string::npos) return text;
  const std::size_t number = text.find_first_not_of(' ', at + kWord.size());
  return text.substr(0, at) + " " + (number == std::string::npos ? "" : text.substr(number));
}

void write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) {
    log(LogLevel::error, "cannot write the report to %s: %s", path.c_str(), std::strerror(errno));
  }
}

}  // namespace

std::string library_version() {
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1, '\0');
  int length = 0;
  native.Get_library_version(text.data(), &length);
  std::string version(text.data());
  version = version.substr(0, version.find('\n'));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version.substr(0, version.find(','));
}

double now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void count_taken(const char* call, const char* algorithm, std::size_t bytes,
                 double seconds) noexcept {
  count(call, algorithm, bytes, seconds);
}

void count_wait(const char* call, const void* site, double seconds) noexcept {
  std::lock_guard lock(mutex);
  Counts& counts = waits[{call, site}];
  counts.calls += 1;
  counts.seconds += seconds;
}

void WaitTimer::stop() const noexcept {
  const double seconds = now() - begin_;
  count_wait(call_, call_site(), seconds);
}

void count_passed(const char* call, Reason reason, std::size_t bytes, double seconds) noexcept {
  count(call, kReasonNames[static_cast<int>(reason)], bytes, seconds);
}

Reason kind_of(MPI_Comm comm, Reason otherwise) noexcept try {
  if (comm == MPI_COMM_NULL) return Reason::arguments;
  int inter = 0, size = 0;
  if (native.Comm_test_inter(comm, &inter) != MPI_SUCCESS) return Reason::arguments;
  if (inter) return Reason::intercommunicator;
  if (native.Comm_size(comm, &size) != MPI_SUCCESS) return otherwise;
  std::vector<std::int32_t> members;
  if (size == 1) return Reason::one_rank;
  return world_ranks(comm, size, &members) ? otherwise : Reason::other_world;
} catch (const std::bad_alloc&) {
  return otherwise;
}

void leave_note() noexcept {
  if (!state.job) return;  // a world of one rank: nothing is taken over
  const char* path = std::getenv("TUTTI_RUN_STAMP");
  std::FILE* file = path != nullptr ? std::fopen(path, "we") : nullptr;
  if (file == nullptr) return;  // started without `tutti run`, or on another node than it
  const bool messages = state.messages != nullptr;
  std::fprintf(file,
               "took over the collectives%s of %d ranks %s; %swindows and files stay with %s\n",
               messages ? " and messages" : "", state.size, place_text().c_str(),
               messages ? "" : "messages, ", product().c_str());
  std::fclose(file);
}

void write_report(double run) noexcept {
  const std::vector<report::RankProfile> profiles = gather_profiles();
  Gathered all{gather(), gather_processors(), gather_casts(), {}};
  if (state.rank != 0) return;
  static const std::vector<Learnt> none;
  all.summary = report::summarise(profiles, state.job ? state.job->learnt() : none, run);
  const std::string& where = state.settings.report;
  if (where == "1") {
    const std::string text = table(all);
    std::fwrite(text.data(), 1, text.size(), stderr);
  } else if (!where.empty() && where != "0") {
    write_file(where, in_form_of(where, all));
  }
  if (!state.settings.report_json.empty()) write_file(state.settings.report_json, json(all));
}

}  // namespace tutti::mpi
