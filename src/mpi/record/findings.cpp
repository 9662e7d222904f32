#include "mpi/record/findings.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tutti::roll {
namespace {

/// A thread that is in a collective, or waits for one.
struct Entry {
  const RankSeen* rank;
  const CallSeen* call;
};

/// Which collective: the communicator's id, whether it is one of the non-blocking, and its number.
/// In the order of their numbers on each.
using Which = std::pair<std::pair<std::uint64_t, bool>, std::uint64_t>;

/// Collectives of one communicator that have met: the same order and number.
struct Meeting {
  std::vector<Entry> entries;
  std::vector<std::int32_t> missing;  // members that have not come to it, of those that are seen
  int unseen = 0;                     // members that are not seen, or not known by name
};
using Meetings = std::map<Which, Meeting>;

const CommSeen* comm_of(const RankSeen& rank, std::uint64_t id) {
  const auto found = std::ranges::find(rank.comms, id, &CommSeen::id);
  return found != rank.comms.end() ? &*found : nullptr;
}

Meetings meetings_of(const std::vector<RankSeen>& ranks) {
  Meetings meetings;
  for (const RankSeen& rank : ranks) {
    if (rank.finalizing || rank.process == 'X') continue;
    for (const CallSeen& call : rank.calls) {
      if (call.inside && !call.moved && call.collective)
        meetings[{{call.id, call.passed.nonblocking}, call.passed.number}].entries.push_back(
            {&rank, &call});
    }
  }
  return meetings;
}

/// What ranks have passed to one collective.
struct Side {
  const RankSeen* rank;
  const CommSeen* comm;
  Passed passed;
};
using Sides = std::vector<Side>;

/// Of every collective that is remembered, in the order of their numbers.
std::map<Which, Sides> sides_of(const std::vector<RankSeen>& ranks) {
  std::map<Which, Sides> sides;
  for (const RankSeen& rank : ranks) {
    for (const CommSeen& comm : rank.comms) {
      for (const Passed& passed : comm.past)
        sides[{{comm.id, passed.nonblocking}, passed.number}].push_back({&rank, &comm, passed});
    }
  }
  return sides;
}

/// Ranks that agree with each other, by what they have called.
std::string text_of(const Sides& sides, const SiteText& site_text) {
  std::map<std::string, std::vector<std::int32_t>> by_call;
  for (const Side& side : sides) {
    const std::string site = site_text(*side.rank, side.passed.site);
    by_call[described(side.passed, side.comm->name) + (site.empty() ? "" : " at " + site)]
        .push_back(side.rank->rank);
  }
  std::string text;
  for (auto& [call, who] : by_call) {
    std::ranges::sort(who);
    text += (text.empty() ? "" : "; ") + rank_list(who, sides.front().rank->size) +
            (who.size() == 1 ? " has" : " have") + " called " + call;
  }
  return text;
}

/// The first of each communicator: what comes after it is off by one, or garbage.
void find_mismatches(const std::vector<RankSeen>& ranks, const SiteText& site_text,
                     std::vector<std::string>* out) {
  std::set<std::uint64_t> said;
  for (const auto& [key, sides] : sides_of(ranks)) {
    if (said.contains(key.first.first)) continue;
    for (const Side& side : sides) {
      const std::string what = difference(sides.front().passed, side.passed);
      if (what.empty()) continue;
      out->push_back(what + ": " + text_of(sides, site_text));
      said.insert(key.first.first);
      break;
    }
  }
}

/// Whether a rank has come to the meeting, or has been there already.
bool has_come(const RankSeen& rank, std::uint64_t id, bool nonblocking, std::uint64_t number) {
  const CommSeen* comm = comm_of(rank, id);
  return comm != nullptr && (nonblocking ? comm->started : comm->number) >= number;
}

void find_missing(const std::vector<RankSeen>& ranks, Meetings* meetings) {
  for (auto& [key, meeting] : *meetings) {
    const auto& [which, number] = key;
    const CommSeen* comm = comm_of(*meeting.entries.front().rank, which.first);
    if (comm == nullptr) continue;
    const bool named = comm->stride > 0;
    int seen = 0;
    for (const RankSeen& rank : ranks) {
      const int from_first = rank.rank - comm->first;
      const bool member = named ? from_first >= 0 && from_first % comm->stride == 0 &&
                                      from_first / comm->stride < comm->size
                                : comm_of(rank, which.first) != nullptr;
      if (!member) continue;
      if (rank.full && comm_of(rank, which.first) == nullptr) continue;
      ++seen;
      if (!has_come(rank, which.first, which.second, number)) meeting.missing.push_back(rank.rank);
    }
    meeting.unseen = comm->size - seen;
    std::ranges::sort(meeting.missing);
  }
}

void say_missing(const Meetings& meetings, std::vector<std::string>* out) {
  for (const auto& [key, meeting] : meetings) {
    const Entry& first = meeting.entries.front();
    const std::string what =
        first.call->name + " no. " + grouped(key.second) + " on " + first.call->comm;
    const CommSeen* comm = comm_of(*first.rank, key.first.first);
    if (!meeting.missing.empty()) {
      out->push_back(what + " waits for " + rank_list(meeting.missing, comm->size));
    } else if (meeting.unseen > 0) {
      out->push_back(what + ": all members that are seen here have come, " +
                     std::to_string(meeting.unseen) + " others are not seen");
    }
  }
}

/// Whom each rank that is inside a call waits for, as far as the call says.
std::map<std::int32_t, std::set<std::int32_t>> waits_of(const std::vector<RankSeen>& ranks,
                                                        const Meetings& meetings) {
  std::map<std::int32_t, std::set<std::int32_t>> waits;
  for (const auto& [key, meeting] : meetings) {
    for (const Entry& entry : meeting.entries)
      waits[entry.rank->rank].insert(meeting.missing.begin(), meeting.missing.end());
  }
  for (const RankSeen& rank : ranks) {
    if (rank.finalizing || rank.process == 'X') continue;
    for (const CallSeen& call : rank.calls) {
      if (!call.inside || call.moved || !call.message) continue;
      if (call.peer_in_world >= 0 && call.peer_in_world != rank.rank)
        waits[rank.rank].insert(call.peer_in_world);
    }
  }
  return waits;
}

/// A way from `from` back to `to`, each waiting for the next. The ranks on it are appended.
bool find_way(const std::map<std::int32_t, std::set<std::int32_t>>& waits, std::int32_t from,
              std::int32_t to, std::set<std::int32_t>* visited, std::vector<std::int32_t>* way) {
  const auto next = waits.find(from);
  if (next == waits.end() || !visited->insert(from).second) return false;
  way->push_back(from);
  for (const std::int32_t peer : next->second) {
    if (peer == to || find_way(waits, peer, to, visited, way)) return true;
  }
  way->pop_back();
  return false;
}

void find_cycle(const std::vector<RankSeen>& ranks, const Meetings& meetings,
                std::vector<std::string>* out) {
  const auto waits = waits_of(ranks, meetings);
  for (const auto& [rank, whom] : waits) {
    std::set<std::int32_t> visited;
    std::vector<std::int32_t> way;
    if (!find_way(waits, rank, rank, &visited, &way)) continue;
    std::string text = "in a circle: rank " + std::to_string(rank);
    for (std::size_t i = 1; i < way.size(); ++i)
      text += " waits for rank " + std::to_string(way[i]) + ", which";
    out->push_back(text + " waits for rank " + std::to_string(rank));
    return;  // others are the same one, or can be looked for when this one is mended
  }
}

}  // namespace

std::vector<std::string> find_misfits(const std::vector<RankSeen>& ranks,
                                      const SiteText& site_text) {
  std::vector<std::string> found;
  Meetings meetings = meetings_of(ranks);
  find_mismatches(ranks, site_text, &found);
  find_missing(ranks, &meetings);
  say_missing(meetings, &found);
  find_cycle(ranks, meetings, &found);
  return found;
}

}  // namespace tutti::roll
