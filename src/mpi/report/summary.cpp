#include "mpi/report/summary.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "mpi/record/roll.hpp"
#include "select/online.hpp"
#include "select/select.hpp"

namespace tutti::report {
namespace {

constexpr int kClassesOfBin = 3;  // powers of two: sizes of a bin differ by less than a factor of 8

/// Rows with the same one are one.
using RowKey = std::tuple<std::string, std::string, std::string, std::int32_t, int>;

std::string call_of(const SiteKey& key) {
  std::string name = roll::function_name(key.function);
  if (!key.nonblocking || key.coll == SiteKey::kNone) return name;
  roll::Passed passed;
  passed.coll = static_cast<Coll>(key.coll);
  passed.nonblocking = true;
  return name + " (" + roll::name_of(passed) + ")";
}

/// What trials say of the MPI for such calls: its time by that of who ran them last, where tutti
/// does; 1 where the MPI does. Nothing where there was no such trial, or several do not agree.
std::optional<double> ratio_of(const std::vector<Learnt>& learnt, const SiteKey& key,
                               std::int32_t size) {
  std::optional<double> found;
  for (const Learnt& one : learnt) {
    const bool alike = static_cast<std::int16_t>(one.coll) == key.coll && one.size == size &&
                       !key.nonblocking &&
                       (one.coll == Coll::barrier ||
                        static_cast<std::int16_t>(Online::class_of(one.most)) == key.size_class);
    if (!alike) continue;
    const bool against_mpi = rule_text(one.against) == "mpi";
    const bool mpi_runs = rule_text(one.taken) == "mpi";
    if (!against_mpi && !mpi_runs) continue;
    if (found) return std::nullopt;
    found = mpi_runs ? 1 : one.ratio;
  }
  return found;
}

class Summing {
 public:
  Summing(const std::vector<RankProfile>& profiles, const std::vector<Learnt>& learnt)
      : profiles_(profiles), learnt_(learnt) {}

  void run(Summary* out) {
    out->arrivals = compare_arrivals(profiles_);
    for (std::size_t rank = 0; rank < profiles_.size(); ++rank) {
      out->recorded += profiles_[rank].sites.empty() ? 0 : 1;
      out->missed += profiles_[rank].missed;
      out->ranks.push_back(rank_row(rank, out->arrivals));
    }
    add_rows(out);
    add_comms(out);
  }

 private:
  const CommSeen* comm_of(const RankProfile& profile, std::uint64_t id) const {
    const auto found = std::ranges::find(profile.comms, id, &CommSeen::id);
    return id != 0 && found != profile.comms.end() ? &*found : nullptr;
  }

  RankRow rank_row(std::size_t rank, const Arrivals& arrivals) {
    const RankProfile& profile = profiles_[rank];
    RankRow row;
    row.rank = profile.rank;
    row.arrivals = arrivals.ranks[rank];
    std::map<RowKey, double> here;  // time in each row
    for (std::size_t i = 0; i < profile.sites.size(); ++i) {
      const SiteWaits& waits = arrivals.sites[rank][i];
      const double seconds = 1e-9 * static_cast<double>(profile.sites[i].counts.ns);
      const double waiting = waits.ns > 0 ? seconds * waits.waiting_ns / waits.ns : 0;
      row.waiting += waiting;
      (waits.compared > 0 ? row.transfer : row.other) += seconds - waiting;
      here[add_site(profile, profile.sites[i], waits.compared > 0, seconds, waiting)] += seconds;
    }
    for (const auto& [key, seconds] : here) add_rank(row.rank, seconds, &rows_[key]);
    return row;
  }

  static void add_rank(std::int32_t rank, double seconds, SiteRow* row) {
    row->ranks += 1;
    if (row->ranks > 1 && seconds <= row->slowest) return;
    row->slowest = seconds;
    row->slowest_rank = rank;
  }

  RowKey add_site(const RankProfile& profile, const Site& site, bool compared, double seconds,
                  double waiting) {
    const CommSeen* const comm = comm_of(profile, site.key.comm);
    const int bin = site.key.size_class >= 0 ? site.key.size_class / kClassesOfBin : -1;
    const RowKey key{call_of(site.key), site.text, comm != nullptr ? comm->name : "",
                     comm != nullptr ? comm->size : 0, bin};
    SiteRow& row = rows_[key];
    row.counts.calls += site.counts.calls;
    row.counts.bytes += site.counts.bytes;
    row.counts.least = std::min(row.counts.least, site.counts.least);
    row.counts.most = std::max(row.counts.most, site.counts.most);
    row.counts.longest_ns = std::max(row.counts.longest_ns, site.counts.longest_ns);
    row.all += seconds;
    row.compared = row.compared || compared;
    row.waiting += waiting;
    row.transfer += compared ? seconds - waiting : 0;
    const auto ratio = comm != nullptr ? ratio_of(learnt_, site.key, comm->size) : std::nullopt;
    if (ratio && compared) {
      row.measured = true;
      row.saved += (seconds - waiting) * (*ratio - 1);
    }
    return key;
  }

  void add_rows(Summary* out) {
    for (auto& [key, row] : rows_) {
      std::tie(row.call, row.site, row.comm, row.comm_size, std::ignore) = key;
      out->sites.push_back(std::move(row));
    }
    std::ranges::stable_sort(out->sites, std::ranges::greater(), &SiteRow::all);
  }

  /// Of those of one name and size together, as their first members have them.
  void add_comms(Summary* out) const {
    std::map<std::pair<std::string, std::int32_t>, CommRow> found;
    for (const RankProfile& profile : profiles_) {
      for (const KindArrivals& kind : profile.kinds) {
        const CommSeen& comm = profile.comms[kind.comm];
        if (comm.rank != 0) continue;
        CommRow& row = found[{comm.name, comm.size}];
        row.collectives += kind.collectives;
        row.compared += kind.kept.size();
      }
    }
    for (auto& [key, row] : found) {
      std::tie(row.name, row.size) = key;
      out->comms.push_back(std::move(row));
    }
  }

  const std::vector<RankProfile>& profiles_;
  const std::vector<Learnt>& learnt_;
  std::map<RowKey, SiteRow> rows_;
};

template <class Value>
double sum_of(const std::vector<RankRow>& rows, Value RankRow::*value) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [value](double sum, const RankRow& row) { return sum + row.*value; });
}

}  // namespace

double Summary::waiting() const noexcept { return sum_of(ranks, &RankRow::waiting); }
double Summary::transfer() const noexcept { return sum_of(ranks, &RankRow::transfer); }
double Summary::other() const noexcept { return sum_of(ranks, &RankRow::other); }

double Summary::saved() const noexcept {
  double sum = 0;
  for (const SiteRow& row : sites) sum += row.saved;
  return sum;
}

bool Summary::exact() const noexcept {
  return missed == 0 && recorded == size && std::ranges::all_of(comms, [](const CommRow& comm) {
           return comm.compared == comm.collectives;
         });
}

Summary summarise(const std::vector<RankProfile>& profiles, const std::vector<Learnt>& learnt,
                  double run) {
  Summary out;
  out.run = run;
  out.size = static_cast<std::int32_t>(profiles.size());
  Summing(profiles, learnt).run(&out);
  return out;
}

}  // namespace tutti::report
