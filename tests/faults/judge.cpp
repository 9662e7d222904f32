// What must have been seen in a case.
#include <sys/wait.h>

#include <csignal>

#include "faults/case.hpp"

namespace tutti::faults {
namespace {

constexpr double kBound = 3;  // seconds until a rank knows

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

std::string whose(int rank) { return "rank " + std::to_string(rank) + " "; }

std::string code_of(std::int32_t code) { return name(static_cast<Code>(code)); }

/// The rank whose death is expected: the victim, or the one that a rule kills.
int doomed(const Case& c) {
  const std::size_t place = c.settings.fault.find(":rank=");
  return c.settings.fault.rfind("kill", 0) == 0 && place != std::string::npos
             ? std::stoi(c.settings.fault.substr(place + 6))
             : c.victim;
}

std::string processes_ended(const Case& c, const Report& report) {
  if (c.world == World::nodes) return {};
  for (int rank = 0; rank < c.ranks + c.processors; ++rank) {
    const int status = report.statuses[static_cast<std::size_t>(rank)];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return whose(rank) + "hangs";
    const bool may_die = c.expected == Outcome::lost && rank == doomed(c) && was_killed(status);
    if (!may_die && status != 0)
      return whose(rank) + "ended with the wait status " + std::to_string(status);
  }
  return {};
}

/// Of a rank that failed: in time, and so did the next operation.
std::string failed_well(const Case& c, const Seen& seen, int rank) {
  if (seen.seconds > kBound + (c.stops ? 1 : 0))
    return whose(rank) + "was told after " + std::to_string(seen.seconds) + " s";
  if (c.work != Work::messages && seen.again != seen.code)
    return whose(rank) + "failed with " + code_of(seen.code) + " and then with " +
           code_of(seen.again);
  return {};
}

}  // namespace

std::string judge(const Case& c, const Report& report, bool* struck) {
  *struck = c.expected == Outcome::none;
  if (report.finished == 0) return "the job did not come to its end";
  if (std::string wrong = processes_ended(c, report); !wrong.empty()) return wrong;
  const bool kills = c.expected == Outcome::lost && !c.cut;
  const bool died =
      c.cut || (kills && was_killed(report.statuses[static_cast<std::size_t>(doomed(c))]));
  int first = -1;  // a survivor whose failure the others must share
  for (int rank = 0; rank < c.ranks; ++rank) {
    if (died && rank == doomed(c)) continue;
    const Seen& seen = report.seen[static_cast<std::size_t>(rank)];
    if (seen.ended == 0) return whose(rank) + "did not come to its end";
    if (seen.wrong != 0) return whose(rank) + "has wrong results";
    if (first < 0) first = rank;
    const Seen& other = report.seen[static_cast<std::size_t>(first)];
    if (seen.code != other.code)
      return whose(rank) + "has seen " + code_of(seen.code) + ", but " + whose(first) +
             code_of(other.code);
    if (seen.code == 0) continue;
    *struck = true;
    if (std::string wrong = failed_well(c, seen, rank); !wrong.empty()) return wrong;
    if (c.expected == Outcome::none) return whose(rank) + "has seen " + code_of(seen.code);
    if (c.expected == Outcome::late && seen.code != static_cast<std::int32_t>(Code::timeout))
      return whose(rank) + "has seen " + code_of(seen.code) + " in place of a timeout";
    if (!died) continue;
    if (seen.code != static_cast<std::int32_t>(Code::peer_lost) || seen.peer != doomed(c))
      return whose(rank) + "has seen " + code_of(seen.code) + " of rank " +
             std::to_string(seen.peer);
  }
  if (!died || first < 0) return {};
  // Who got through the barriers at the end had the doomed one with it until then.
  const Seen& seen = report.seen[static_cast<std::size_t>(first)];
  if (seen.code == 0 && (seen.again != 0 || c.work == Work::messages))
    return "nobody has noticed the death of rank " + std::to_string(doomed(c)) + " in time";
  return {};
}

}  // namespace tutti::faults
