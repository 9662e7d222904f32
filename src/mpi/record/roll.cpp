// Who does the same, in words.
#include "mpi/record/roll.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "mpi/record/findings.hpp"

namespace tutti::roll {
namespace {

std::string message_of(const CallSeen& call) {
  const std::string peer = call.peer == -1 ? "any rank" : std::to_string(call.peer);
  const std::string tag = call.tag == -1 ? "any tag" : "tag " + std::to_string(call.tag);
  return (call.sends ? " to " : " from ") + peer + " (" + tag + ")";
}

std::string outside(const RankSeen& rank, const CallSeen* last) {
  std::string text = rank.process == 'R' ? "computing, outside MPI"
                     : rank.process == 'S' || rank.process == 'D'
                         ? "waiting for something outside MPI"
                     : rank.process == 'T' || rank.process == 't' ? "stopped, outside MPI"
                                                                  : "outside MPI";
  return text + (last != nullptr ? "; the last call was " + described(*last) : "; no call so far");
}

/// A thread's part in the table: its group without its rank.
Group part_of(const RankSeen& rank, const CallSeen* call, const SiteText& site_text) {
  Group group;
  if (call != nullptr) {
    group.call = *call;
    group.site = site_text(rank, call->site);
  }
  if (rank.process == 'X') {
    group.state = "ended";
    group.what =
        "ended" + (call != nullptr
                       ? (call->inside ? ", inside " : "; the last call was ") + described(*call)
                       : std::string());
  } else if (rank.finalizing) {
    group.state = "finalizing";
    group.what = "in MPI_Finalize";
    group.site.clear();
  } else if (call != nullptr && call->inside) {
    group.state = "inside";
    group.what =
        (rank.process == 'T' || rank.process == 't' ? "stopped in " : "in ") + described(*call);
  } else {
    group.state = "outside";
    group.what = outside(rank, call);
  }
  return group;
}

/// The threads of a rank that are worth a line: those inside, else the first.
std::vector<const CallSeen*> threads_of(const RankSeen& rank) {
  std::vector<const CallSeen*> threads;
  for (const CallSeen& call : rank.calls) {
    if (call.inside) threads.push_back(&call);
  }
  if (threads.empty() || rank.finalizing || rank.process == 'X') {
    const CallSeen* first = threads.empty() ? nullptr : threads.front();
    if (first == nullptr && !rank.calls.empty()) first = &rank.calls.front();
    threads.assign(1, first);
  }
  return threads;
}

std::string seconds_text(std::uint64_t ns) {
  char text[32];
  const double seconds = static_cast<double>(ns) / 1e9;
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

}  // namespace

std::string described(const CallSeen& call) {
  const std::string wait = call.wait.empty() ? std::string() : call.wait + " for ";
  if (call.collective) return wait + described(call.passed, call.comm);
  if (!call.message) return call.name;
  return wait + call.name + message_of(call) + " on " +
         (call.comm.empty() ? std::string("a communicator") : call.comm);
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string rank_list(const std::vector<std::int32_t>& ranks, std::int32_t size) {
  std::string list;
  constexpr int kMostRuns = 12;
  int runs = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (++runs > kMostRuns) {
      list += ", ...";
      break;
    }
    list += (list.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) list += (last > i + 1 ? "-" : ", ") + std::to_string(ranks[last]);
    i = last + 1;
  }
  if (ranks.size() == 1) return "rank " + list;
  return "ranks " + list + " (" + std::to_string(ranks.size()) + " of " + std::to_string(size) +
         ")";
}

Roll call_roll(const std::vector<RankSeen>& ranks, const SiteText& site_text) {
  std::map<std::tuple<std::string, std::string>, Group> groups;
  for (const RankSeen& rank : ranks) {
    for (const CallSeen* call : threads_of(rank)) {
      Group part = part_of(rank, call, site_text);
      auto [place, added] = groups.try_emplace({part.what, part.site}, part);
      Group& group = place->second;
      if (group.ranks.empty() || group.ranks.back() != rank.rank) group.ranks.push_back(rank.rank);
      const std::uint64_t since = part.call.since_ns;
      if (since != 0 && (group.call.since_ns == 0 || since < group.call.since_ns))
        group.call.since_ns = since;
    }
  }
  Roll roll;
  for (auto& [key, group] : groups) {
    std::ranges::sort(group.ranks);
    roll.groups.push_back(std::move(group));
  }
  // The many first: the odd ones out are read last, beside what was found.
  std::ranges::stable_sort(roll.groups, [](const Group& a, const Group& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
  });
  roll.findings = find_misfits(ranks, site_text);
  return roll;
}

std::string text_of(const Roll& roll, std::int32_t size, std::uint64_t now_ns) {
  std::string text;
  for (const Group& group : roll.groups) {
    text += "  " + rank_list(group.ranks, size) + ": " + group.what;
    if (!group.site.empty()) text += ", called at " + group.site;
    if (group.state == "inside" && group.call.since_ns != 0 && now_ns > group.call.since_ns)
      text += ", for " + seconds_text(now_ns - group.call.since_ns);
    text += "\n";
  }
  for (const std::string& finding : roll.findings) text += "  -> " + finding + "\n";
  return text;
}

}  // namespace tutti::roll
