#include "mpi/report/arrivals.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>

namespace tutti::report {
namespace {

/// One member's arrival at a collective.
struct Member {
  std::uint64_t comm, number;
  std::int32_t comm_rank, rank;
  std::int32_t size;  // of the communicator
  const Arrival* arrival;

  auto order() const { return std::tuple(comm, number, comm_rank); }
};
using Meeting = std::span<const Member>;  // all members, by their ranks in the communicator

std::vector<Member> all_members(const std::vector<RankProfile>& profiles) {
  std::vector<Member> all;
  for (const RankProfile& profile : profiles) {
    for (const KindArrivals& kind : profile.kinds) {
      const CommSeen& comm = profile.comms[kind.comm];
      for (const Arrival& arrival : kind.kept)
        all.push_back({comm.id, arrival.number, comm.rank, profile.rank, comm.size, &arrival});
    }
  }
  std::ranges::sort(all, {}, &Member::order);
  return all;
}

/// Calls `see(meeting)` for each collective that all members have kept.
template <class See>
void for_each_meeting(const std::vector<Member>& all, See&& see) {
  for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
    while (last < all.size() && all[last].comm == all[first].comm &&
           all[last].number == all[first].number)
      ++last;
    if (last - first == static_cast<std::size_t>(all[first].size))
      see(Meeting(&all[first], last - first));
  }
}

/// Whose data a member needs.
enum class Needs : std::uint8_t { everybody, root, lower, nobody };

Needs needs_of(Coll coll, bool is_root) noexcept {
  switch (coll) {
    case Coll::bcast:
    case Coll::scatter:
    case Coll::scatterv:
      return is_root ? Needs::nobody : Needs::root;
    case Coll::reduce:
    case Coll::gather:
    case Coll::gatherv:
      return is_root ? Needs::everybody : Needs::nobody;
    case Coll::scan:
    case Coll::exscan:
      return Needs::lower;
    default:
      return has_neighbours(coll) ? Needs::nobody : Needs::everybody;
  }
}

bool came_later(const Member& one, const Member& other) noexcept {
  return one.arrival->begin < other.arrival->begin;
}

const Member& last_of(Meeting members) { return *std::ranges::max_element(members, came_later); }

/// The last to come of those that `member` waits for; itself where nobody came later.
const Member& awaited_by(const Member& member, Meeting meeting, Coll coll) {
  const std::int32_t root = member.arrival->root;
  const Member* last = &member;
  const auto consider = [&last](const Member& other) {
    if (came_later(*last, other)) last = &other;
  };
  switch (needs_of(coll, member.comm_rank == root)) {
    case Needs::everybody:
      consider(last_of(meeting));
      break;
    case Needs::root:
      if (root >= 0 && root < member.size) consider(meeting[static_cast<std::size_t>(root)]);
      break;
    case Needs::lower:
      consider(last_of(meeting.first(static_cast<std::size_t>(member.comm_rank) + 1)));
      break;
    case Needs::nobody:
      break;
  }
  const auto partner = std::ranges::find(meeting, member.arrival->partner, &Member::rank);
  if (partner != meeting.end()) consider(*partner);
  return *last;
}

double waited_ns(const Arrival& own, const Arrival& awaited) noexcept {
  return static_cast<double>(std::min(own.end, awaited.begin) - std::min(own.begin, own.end));
}

class Comparison {
 public:
  explicit Comparison(const std::vector<RankProfile>& profiles)
      : profiles_(profiles), all_(all_members(profiles)) {
    out_.ranks.resize(profiles.size());
    for (const RankProfile& profile : profiles) out_.sites.emplace_back(profile.sites.size());
  }

  Arrivals run() {
    begin_line();
    for_each_meeting(all_, [this](Meeting meeting) { add(meeting); });
    for_each_meeting(all_, [this](Meeting meeting) { charge(meeting); });
    end_line();
    return std::move(out_);
  }

 private:
  static constexpr int kColumns = 60;

  SiteWaits& waits_of(const Member& member) {
    return out_.sites[static_cast<std::size_t>(member.rank)][member.arrival->site];
  }
  Coll coll_of(const Member& member) const {
    const RankProfile& profile = profiles_[static_cast<std::size_t>(member.rank)];
    return static_cast<Coll>(profile.sites[member.arrival->site].key.coll);
  }
  RankArrivals& rank_of(const Member& member) {
    return out_.ranks[static_cast<std::size_t>(member.rank)];
  }

  void add(Meeting meeting) {
    out_.compared += 1;
    rank_of(last_of(meeting)).last += 1;
    const std::uint64_t first = std::ranges::min_element(meeting, came_later)->arrival->begin;
    for (const Member& member : meeting) {
      const Arrival& arrival = *member.arrival;
      const auto behind = static_cast<double>(arrival.begin - first);
      rank_of(member).compared += 1;
      rank_of(member).behind_ns += behind;
      add_to_line(member, behind);
      SiteWaits& waits = waits_of(member);
      waits.compared += 1;
      waits.ns += static_cast<double>(arrival.end - std::min(arrival.begin, arrival.end));
      waits.waiting_ns += waited_ns(arrival, *awaited_by(member, meeting, coll_of(member)).arrival);
    }
  }

  /// Those who were waited for; a call that was compared speaks for others of its place.
  void charge(Meeting meeting) {
    for (const Member& member : meeting) {
      const Member& awaited = awaited_by(member, meeting, coll_of(member));
      const SiteWaits& waits = waits_of(member);
      if (&awaited == &member || waits.ns <= 0) continue;
      const RankProfile& profile = profiles_[static_cast<std::size_t>(member.rank)];
      const auto all = static_cast<double>(profile.sites[member.arrival->site].counts.ns);
      rank_of(awaited).caused_ns += waited_ns(*member.arrival, *awaited.arrival) * all / waits.ns;
    }
  }

  void begin_line() {
    TimeLine& line = out_.line;
    if (all_.empty()) return;
    const auto [first, last] = std::ranges::minmax_element(
        all_, {}, [](const Member& member) { return member.arrival->begin; });
    line.begin = first->arrival->begin;
    line.end = last->arrival->begin + 1;
    line.columns = kColumns;
    line.behind_ns.resize(profiles_.size() * kColumns);
    counts_.resize(line.behind_ns.size());
  }
  void add_to_line(const Member& member, double behind) {
    TimeLine& line = out_.line;
    const double part = static_cast<double>(member.arrival->begin - line.begin) /
                        static_cast<double>(line.end - line.begin);
    const auto column = static_cast<std::size_t>(part * kColumns);
    const std::size_t place = static_cast<std::size_t>(member.rank) * kColumns +
                              std::min<std::size_t>(column, kColumns - 1);
    line.behind_ns[place] += static_cast<float>(behind);
    counts_[place] += 1;
  }
  void end_line() {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      float& mean = out_.line.behind_ns[i];
      mean = counts_[i] != 0 ? mean / static_cast<float>(counts_[i]) : -1;
    }
  }

  const std::vector<RankProfile>& profiles_;
  const std::vector<Member> all_;
  std::vector<std::uint32_t> counts_;
  Arrivals out_;
};

}  // namespace

Arrivals compare_arrivals(const std::vector<RankProfile>& profiles) {
  return Comparison(profiles).run();
}

}  // namespace tutti::report
