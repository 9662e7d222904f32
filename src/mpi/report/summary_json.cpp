// The same as JSON.
#include <cinttypes>
#include <cstdio>

#include "mpi/report/summary.hpp"

namespace tutti::report {
namespace {

/// The members of an object, one after the other.
class Object {
 public:
  Object& add(const char* name, const std::string& json) {
    text_ += text_.empty() ? "{\"" : ", \"";
    text_ += name;
    text_ += "\": ";
    text_ += json;
    return *this;
  }
  Object& text(const char* name, const std::string& value) { return add(name, quoted(value)); }
  Object& number(const char* name, double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.9g", value);
    return add(name, digits);
  }
  Object& integer(const char* name, std::uint64_t value) {
    return add(name, std::to_string(value));
  }
  Object& number_or_null(const char* name, bool known, double value) {
    return known ? number(name, value) : add(name, "null");
  }
  Object& yes(const char* name, bool value) { return add(name, value ? "true" : "false"); }
  std::string end() const { return (text_.empty() ? "{" : text_) + "}"; }

 private:
  std::string text_;
};

/// An array, a line for each element.
template <class Elements, class JsonOf>
std::string array(const Elements& elements, JsonOf&& json_of_element) {
  std::string text = "[";
  for (const auto& element : elements) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    text += json_of_element(element);
  }
  return text + "]";
}

std::string site_json(const SiteRow& row, double all) {
  const bool sized = row.counts.least <= row.counts.most;
  Object out;
  out.text("call", row.call).text("site", row.site);
  row.comm_size == 0 ? out.add("communicator", "null") : out.text("communicator", row.comm);
  out.integer("members", static_cast<std::uint64_t>(row.comm_size));
  sized ? out.integer("least_bytes", row.counts.least) : out.add("least_bytes", "null");
  sized ? out.integer("most_bytes", row.counts.most) : out.add("most_bytes", "null");
  out.integer("ranks", static_cast<std::uint64_t>(row.ranks))
      .integer("calls", row.counts.calls)
      .integer("bytes", row.counts.bytes)
      .number("seconds_all", row.all)
      .number("seconds", row.slowest)
      .integer("slowest_rank", static_cast<std::uint64_t>(row.slowest_rank))
      .number("longest_call", 1e-9 * static_cast<double>(row.counts.longest_ns))
      .number("imbalance", row.imbalance())
      .number("share", all > 0 ? row.all / all : 0)
      .number_or_null("waiting", row.compared, row.waiting)
      .number_or_null("transfer", row.compared, row.transfer)
      .number_or_null("saved", row.measured, row.saved);
  return out.end();
}

std::string rank_json(const RankRow& row) {
  const RankArrivals& arrivals = row.arrivals;
  const auto compared = static_cast<double>(arrivals.compared > 0 ? arrivals.compared : 1);
  return Object()
      .integer("rank", static_cast<std::uint64_t>(row.rank))
      .number("waiting", row.waiting)
      .number("transfer", row.transfer)
      .number("other", row.other)
      .integer("compared", arrivals.compared)
      .integer("last", arrivals.last)
      .number("behind", 1e-9 * arrivals.behind_ns / compared)
      .number("caused", 1e-9 * arrivals.caused_ns)
      .end();
}

std::string comm_json(const CommRow& row) {
  return Object()
      .text("name", row.name)
      .integer("members", static_cast<std::uint64_t>(row.size))
      .integer("collectives", row.collectives)
      .integer("compared", row.compared)
      .end();
}

/// A row of microseconds for each rank; null where it has come to nothing.
std::string line_json(const TimeLine& line, std::size_t ranks) {
  std::string rows = "[";
  for (std::size_t rank = 0; rank < (line.columns > 0 ? ranks : 0); ++rank) {
    rows += rank == 0 ? "[" : ", [";
    for (int column = 0; column < line.columns; ++column) {
      const float behind = line.behind_ns[rank * static_cast<std::size_t>(line.columns) +
                                          static_cast<std::size_t>(column)];
      char text[32] = "null";
      if (behind >= 0) std::snprintf(text, sizeof text, "%.4g", 1e-3 * static_cast<double>(behind));
      if (column != 0) rows += ',';
      rows += text;
    }
    rows += "]";
  }
  return Object()
      .number("seconds", 1e-9 * static_cast<double>(line.end - line.begin))
      .add("behind_us", rows + "]")
      .end();
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + '"';
}

std::string json_of(const Summary& summary) {
  const double all = summary.run * summary.size;
  return Object()
      .integer("recorded_ranks", static_cast<std::uint64_t>(summary.recorded))
      .integer("missed_calls", summary.missed)
      .yes("exact", summary.exact())
      .integer("compared", summary.arrivals.compared)
      .number("waiting", summary.waiting())
      .number("transfer", summary.transfer())
      .number("other", summary.other())
      .number("saved", summary.saved())
      .add("sites", array(summary.sites, [all](const SiteRow& row) { return site_json(row, all); }))
      .add("ranks", array(summary.ranks, rank_json))
      .add("communicators", array(summary.comms, comm_json))
      .add("time_line", line_json(summary.arrivals.line, summary.ranks.size()))
      .end();
}

}  // namespace tutti::report
