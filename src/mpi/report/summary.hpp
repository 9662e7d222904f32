// What the profiles of all ranks say together: the report's tables, and the same as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mpi/report/arrivals.hpp"
#include "mpi/report/profile.hpp"
#include "select/kept.hpp"

namespace tutti::report {

/// Calls of all ranks from one place, on communicators of one name and size, of similar sizes.
/// Times in seconds.
struct SiteRow {
  std::string call, site, comm;  // comm: "" where none is known
  std::int32_t comm_size = 0;
  SiteCounts counts;  // of all ranks; least > most: no size is known
  std::int32_t ranks = 0;
  double all = 0;      // inside the calls, of all ranks
  double slowest = 0;  // of the rank that has spent most there
  std::int32_t slowest_rank = 0;
  bool compared = false;  // what follows means something:
  double waiting = 0;     // of `all`, for late ranks
  double transfer = 0;    // the rest
  bool measured = false;  // trials have compared tutti and the MPI for such calls:
  double saved = 0;       // what the MPI would have taken longer

  double mean() const noexcept { return ranks > 0 ? all / ranks : 0; }
  /// 1: all ranks have spent the same time there.
  double imbalance() const noexcept { return all > 0 ? slowest / mean() : 1; }
};

/// A rank's time inside calls, in seconds.
struct RankRow {
  std::int32_t rank = 0;
  double waiting = 0, transfer = 0, other = 0;  // other: not told apart
  RankArrivals arrivals;
};

struct CommRow {
  std::string name;
  std::int32_t size = 0;
  std::uint64_t collectives = 0, compared = 0;
};

struct Summary {
  double run = 0;             // seconds, of each rank
  std::int32_t size = 0;      // ranks of the program
  std::int32_t recorded = 0;  // of them, those whose calls were recorded
  std::uint64_t missed = 0;
  std::vector<SiteRow> sites;  // those that have taken most first
  std::vector<RankRow> ranks;
  std::vector<CommRow> comms;
  Arrivals arrivals;

  double waiting() const noexcept;
  double transfer() const noexcept;
  double other() const noexcept;
  double saved() const noexcept;
  /// Every collective has been compared, and no call is missing.
  bool exact() const noexcept;
};

/// `profiles`: of the ranks 0, 1, ..., with the times of one clock; without sites where nothing was
/// recorded. `learnt`: what trials have shown. `run`: seconds from MPI_Init to now.
Summary summarise(const std::vector<RankProfile>& profiles, const std::vector<Learnt>& learnt,
                  double run);

/// Tables for people; "" where nothing was recorded.
std::string text_of(const Summary& summary);
/// An object; docs/report.md describes it.
std::string json_of(const Summary& summary);

/// A text as a string of JSON.
std::string quoted(const std::string& text);

/// A page for browsers that draws the report, which is given as JSON, and needs nothing else.
std::string page_of(const std::string& json);

}  // namespace tutti::report
