// The roll call of jobs that run on this machine, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bindings_sim.hpp"
#include "fabric/shm/segment.hpp"
#include "mpi/record/roll.hpp"

namespace nb = nanobind;

namespace {

using tutti::roll::CallSeen;
using tutti::roll::Group;
using tutti::roll::RankSeen;

nb::object number_or_none(bool there, std::int64_t value) {
  return there ? nb::cast(value) : nb::none();
}

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::cast(text);
}

nb::dict dict_of(const Group& group, std::uint64_t now_ns) {
  const CallSeen& call = group.call;
  const bool known = group.state == "inside" && call.since_ns != 0 && now_ns > call.since_ns;
  nb::dict row;
  row["ranks"] = group.ranks;
  row["state"] = group.state;
  row["what"] = group.what;
  row["call"] = text_or_none(call.name);
  row["waits_in"] = text_or_none(call.wait);
  row["communicator"] = text_or_none(call.comm);
  row["number"] = number_or_none(call.collective, static_cast<std::int64_t>(call.passed.number));
  row["bytes"] = number_or_none(call.collective && call.passed.bytes != TUTTI_NO_BYTES,
                                static_cast<std::int64_t>(call.passed.bytes));
  row["root"] =
      number_or_none(call.collective && call.passed.root != TUTTI_NO_RANK, call.passed.root);
  row["operation"] = text_or_none(tutti::roll::operation_of(call.passed));
  row["peer"] = number_or_none(call.message, call.peer);
  row["tag"] = number_or_none(call.message, call.tag);
  row["site"] = text_or_none(group.site);
  row["seconds"] = known ? nb::cast(static_cast<double>(now_ns - call.since_ns) / 1e9) : nb::none();
  return row;
}

nb::dict dict_of(const RankSeen& rank) {
  nb::dict row;
  row["rank"] = rank.rank;
  row["pid"] = rank.pid;
  row["process"] = std::string(1, rank.process);
  std::uint64_t calls = 0;
  for (const CallSeen& call : rank.calls) calls += (call.count + 1) / 2;
  row["calls"] = calls;
  return row;
}

/// What the ranks of each job in these segments (descriptors in /proc) are doing: a dict for each
/// job. `process_here(processes, pid)`: the number here of a process of that pid namespace, 0: not
/// known. `site_text(pid, process, address)` says where a call comes from. `now`: CLOCK_MONOTONIC,
/// ns.
std::vector<nb::dict> call_rolls(const std::vector<std::string>& paths,
                                 const nb::callable& process_here, const nb::callable& site_text,
                                 std::uint64_t now) {
  const auto process = [&process_here](std::uint64_t processes, std::int32_t pid) {
    return nb::cast<std::int32_t>(process_here(processes, pid));
  };
  std::vector<std::unique_ptr<tutti::shm::RecordsFromOutside>> nodes;
  std::vector<const tutti_record*> records;
  for (const std::string& path : paths) {
    auto node = tutti::shm::RecordsFromOutside::open(path.c_str());
    for (std::uint32_t local = 0; node && local < node->ranks(); ++local)
      records.push_back(reinterpret_cast<const tutti_record*>(node->record(local)));
    nodes.push_back(std::move(node));
  }
  std::map<std::uint64_t, std::vector<RankSeen>> jobs;
  for (RankSeen& seen : tutti::roll::read_records(records, process))
    jobs[seen.job].push_back(std::move(seen));
  std::vector<nb::dict> out;
  for (auto& [job, ranks] : jobs) {
    std::ranges::sort(ranks, {}, &RankSeen::rank);
    const auto text = [&site_text](const RankSeen& rank, std::uint64_t site) {
      return nb::cast<std::string>(site_text(rank.pid, std::string(1, rank.process), site));
    };
    const tutti::roll::Roll roll = tutti::roll::call_roll(ranks, text);
    const RankSeen& first = ranks.front();
    nb::dict row;
    char name[17];
    std::snprintf(name, sizeof name, "%08llx", static_cast<unsigned long long>(job >> 32));
    row["job"] = std::string(name);
    row["program"] = first.program;
    row["size"] = first.size;
    row["other_version"] = first.foreign;
    nb::list seen, groups;
    for (const RankSeen& rank : ranks) seen.append(dict_of(rank));
    for (const Group& group : roll.groups) groups.append(dict_of(group, now));
    row["ranks"] = seen;
    row["groups"] = groups;
    row["findings"] = roll.findings;
    row["table"] = tutti::roll::text_of(roll, first.size, now);
    out.push_back(row);
  }
  return out;
}

}  // namespace

void bind_where(nb::module_& module) { module.def("call_rolls", &call_rolls); }
