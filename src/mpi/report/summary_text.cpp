// The report's tables of call sites and of late ranks.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "mpi/report/summary.hpp"

namespace tutti::report {
namespace {

constexpr std::size_t kMostSites = 40, kMostRanks = 16;  // printed; JSON has all

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[600];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + (unit > 0 ? kUnits[unit] : "");
}

std::string sizes_text(const SiteCounts& counts) {
  if (counts.least > counts.most) return "-";
  if (counts.least == counts.most) return size_text(counts.least);
  return size_text(counts.least) + ".." + size_text(counts.most);
}

std::string comm_text(const SiteRow& row) {
  if (row.comm_size == 0) return "-";
  if (row.comm.empty()) return "of " + std::to_string(row.comm_size);
  return row.comm;
}

std::string percent_or_none(bool known, double part, double whole) {
  return known ? line("%.1f", percent(part, whole)) : "-";
}

std::string head(const Summary& summary) {
  const double all = summary.run * summary.size;
  std::string text = line(
      "time in MPI by call site, of %d x %.3f s: %.1f %% waiting for late ranks, %.1f %% transfer, "
      "%.1f %% not told apart\n",
      summary.size, summary.run, percent(summary.waiting(), all), percent(summary.transfer(), all),
      percent(summary.other(), all));
  if (summary.recorded < summary.size)
    text += line("  of %d ranks there is no record (TUTTI_RECORDER=off, or no shared memory)\n",
                 summary.size - summary.recorded);
  if (summary.missed != 0) text += line("  %" PRIu64 " calls are missing\n", summary.missed);
  return text;
}

std::string site_line(const SiteRow& row, const Summary& summary) {
  const std::string waiting = percent_or_none(row.compared, row.waiting, row.all);
  const std::string transfer = percent_or_none(row.compared, row.transfer, row.all);
  const std::string saved = row.measured ? line("%.4f", row.saved) : "-";
  return line("%7.2f %8s %9s %10.6f %5d %6.2f %10s %10" PRIu64 " %14s  %-24s %-20s %s\n",
              percent(row.all, summary.run * summary.size), waiting.c_str(), transfer.c_str(),
              row.slowest, row.slowest_rank, row.imbalance(), saved.c_str(), row.counts.calls,
              sizes_text(row.counts).c_str(), row.call.c_str(), comm_text(row).c_str(),
              row.site.c_str());
}

std::string sites_table(const Summary& summary) {
  std::string text = line("%7s %8s %9s %10s %5s %6s %10s %10s %14s  %-24s %-20s %s\n", "run %",
                          "waiting%", "transfer%", "slowest(s)", "rank", "imbal.", "saved(s)",
                          "calls", "bytes", "call", "communicator", "site");
  const std::size_t shown = std::min(summary.sites.size(), kMostSites);
  for (std::size_t i = 0; i < shown; ++i) text += site_line(summary.sites[i], summary);
  if (shown < summary.sites.size())
    text += line("  and %zu more, which have taken less\n", summary.sites.size() - shown);
  return text;
}

std::string compared_text(const Summary& summary) {
  std::uint64_t collectives = 0, compared = 0;
  for (const CommRow& comm : summary.comms) {
    collectives += comm.collectives;
    compared += comm.compared;
  }
  return summary.exact() ? "all collectives"
                         : line("one collective in %.0f, evenly over the run",
                                static_cast<double>(collectives) /
                                    static_cast<double>(std::max<std::uint64_t>(1, compared)));
}

/// Those that others have waited for most.
std::string ranks_table(const Summary& summary) {
  if (summary.arrivals.compared == 0) return "";
  std::vector<RankRow> ranks = summary.ranks;
  std::ranges::stable_sort(ranks, std::ranges::greater(),
                           [](const RankRow& row) { return row.arrivals.caused_ns; });
  std::string text =
      line("late ranks, by %s\n%5s %20s %20s %18s %18s\n", compared_text(summary).c_str(), "rank",
           "came last", "behind first (ms)", "others waited (s)", "waited itself (s)");
  const std::size_t shown = std::min(ranks.size(), kMostRanks);
  for (std::size_t i = 0; i < shown; ++i) {
    const RankArrivals& one = ranks[i].arrivals;
    const auto compared = static_cast<double>(std::max<std::uint64_t>(1, one.compared));
    const std::string last =
        line("%" PRIu64 " (%.1f %%)", one.last, percent(static_cast<double>(one.last), compared));
    text += line("%5d %20s %20.3f %18.6f %18.6f\n", ranks[i].rank, last.c_str(),
                 1e-6 * one.behind_ns / compared, 1e-9 * one.caused_ns, ranks[i].waiting);
  }
  if (shown < ranks.size())
    text += line("  and %zu more, for which others have waited less\n", ranks.size() - shown);
  return text;
}

}  // namespace

std::string text_of(const Summary& summary) {
  if (summary.recorded == 0) return "";
  return head(summary) + sites_table(summary) + ranks_table(summary);
}

}  // namespace tutti::report
