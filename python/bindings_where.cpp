// The roll call of running jobs, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
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

/// A copy of a rank's record, with what the system says of its process now.
nb::dict copy_of(const tutti_record& record, const RankSeen& seen) {
  auto copy = std::make_unique<tutti_record>();
  tutti::roll::copy_record(record, copy.get());
  RankSeen copied;
  std::vector<std::uint64_t> sites;  // of the calls that its threads are in
  tutti::roll::read_copies(*copy, *copy, &copied);
  for (const CallSeen& call : copied.calls) sites.push_back(call.site);
  char name[17];
  std::snprintf(name, sizeof name, "%08llx", static_cast<unsigned long long>(seen.job >> 32));
  nb::dict row;
  row["job"] = std::string(name);
  row["rank"] = seen.rank;
  row["size"] = seen.size;
  row["pid"] = seen.pid;
  row["process"] = std::string(1, seen.process);
  row["record"] = nb::bytes(reinterpret_cast<const char*>(copy.get()), sizeof *copy);
  row["sites"] = sites;
  return row;
}

/// The ranks that have records in these segments (descriptors in /proc): a dict for each.
/// `process_here(processes, pid)`: the number here of a process of that pid namespace, 0: not
/// known.
std::vector<nb::dict> copy_records(const std::vector<std::string>& paths,
                                   const nb::callable& process_here) {
  const auto process = [&process_here](std::uint64_t processes, std::int32_t pid) {
    return nb::cast<std::int32_t>(process_here(processes, pid));
  };
  std::vector<nb::dict> out;
  for (const std::string& path : paths) {
    const auto node = tutti::shm::RecordsFromOutside::open(path.c_str());
    for (std::uint32_t local = 0; node && local < node->ranks(); ++local) {
      const auto& record = *reinterpret_cast<const tutti_record*>(node->record(local));
      RankSeen seen;
      if (tutti::roll::read_record(record, &seen, process)) out.push_back(copy_of(record, seen));
    }
  }
  return out;
}

/// A rank in two copies that copy_records() has made; the second after the first ones of all.
/// `ahead`: by how much the clock here is ahead of its node's, ns. ValueError: of another version.
RankSeen rank_of(const nb::dict& row) {
  const auto first = nb::cast<nb::bytes>(row["first"]), second = nb::cast<nb::bytes>(row["second"]);
  auto records = std::make_unique<tutti_record[]>(2);
  if (first.size() != sizeof(tutti_record) || second.size() != sizeof(tutti_record))
    throw nb::value_error("a record of another version of tutti");
  std::memcpy(&records[0], first.data(), sizeof(tutti_record));
  std::memcpy(&records[1], second.data(), sizeof(tutti_record));
  RankSeen seen;
  if (!tutti::roll::read_copies(records[0], records[1], &seen))
    throw nb::value_error("no record of tutti's");
  seen.pid = nb::cast<std::int32_t>(row["pid"]);
  seen.process = nb::cast<std::string>(row["process"])[0];
  const auto ahead = static_cast<std::uint64_t>(nb::cast<std::int64_t>(row["ahead"]));
  for (CallSeen& call : seen.calls) {
    if (call.since_ns != 0) call.since_ns += ahead;
  }
  return seen;
}

/// What the ranks of a job are doing (rank_of), as a dict. `site_text(rank, address)` says where a
/// call of a rank comes from. `now`: CLOCK_MONOTONIC, ns.
nb::dict call_roll(const std::vector<nb::dict>& rows, const nb::callable& site_text,
                   std::uint64_t now) {
  std::vector<RankSeen> ranks;
  for (const nb::dict& row : rows) ranks.push_back(rank_of(row));
  std::ranges::sort(ranks, {}, &RankSeen::rank);
  const auto text = [&site_text](const RankSeen& rank, std::uint64_t site) {
    return nb::cast<std::string>(site_text(rank.rank, site));
  };
  const tutti::roll::Roll roll = tutti::roll::call_roll(ranks, text);
  const RankSeen& first = ranks.front();
  nb::dict out;
  out["program"] = first.program;
  out["size"] = first.size;
  out["other_version"] = first.foreign;
  nb::list seen, groups;
  for (const RankSeen& rank : ranks) seen.append(dict_of(rank));
  for (const Group& group : roll.groups) groups.append(dict_of(group, now));
  out["ranks"] = seen;
  out["groups"] = groups;
  out["findings"] = roll.findings;
  out["table"] = tutti::roll::text_of(roll, first.size, now);
  return out;
}

}  // namespace

void bind_where(nb::module_& module) {
  module.def("copy_records", &copy_records);
  module.def("call_roll", &call_roll);
}
