// The flight recorders of ranks, for the module tutti._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings_sim.hpp"
#include "fabric/shm/segment.hpp"
#include "mpi/generated/function_index.h"
#include "mpi/record/events.hpp"

namespace nb = nanobind;

namespace {

using tutti::roll::Event;
using tutti::roll::Recorded;

static_assert(tutti::shm::kRecordHeadBytes == TUTTI_RECORD_HEAD);
static_assert(tutti::shm::kRecordBytes ==
              TUTTI_RECORD_HEAD +
                  sizeof(tutti_event) *
                      (TUTTI_EVENTS_FIRST + (TUTTI_RECORD_LANES - 1) * TUTTI_EVENTS_OTHER));

nb::object unless(bool none, std::int64_t value) { return none ? nb::none() : nb::cast(value); }

std::string bounded(const char* text, std::size_t most) {
  return std::string(text, strnlen(text, most));
}

nb::dict dict_of(const Event& event) {
  const tutti::roll::CallSeen& call = event.call;
  const tutti::roll::Passed& passed = call.passed;
  const bool collective = call.collective;
  nb::dict row;
  row["lane"] = event.lane;
  row["count"] = call.count;
  row["call"] = call.name;
  row["waits_in"] = call.wait;
  row["communicator"] = call.comm;
  row["id"] = collective ? call.id : 0;
  row["number"] = unless(!collective, static_cast<std::int64_t>(passed.number));
  row["bytes"] = unless(!collective || passed.bytes == TUTTI_NO_BYTES,
                        static_cast<std::int64_t>(passed.bytes));
  row["root"] = unless(!collective || passed.root == TUTTI_NO_RANK, passed.root);
  row["operation"] = collective ? tutti::roll::operation_of(passed) : "";
  row["algorithm"] = collective ? tutti::roll::algorithm_of(passed) : "";
  row["peer"] = unless(!call.message, call.peer);
  row["tag"] = unless(!call.message, call.tag);
  row["site"] = call.site;
  row["begin"] = event.begin;
  row["end"] = event.end;
  row["finished"] = !call.inside;
  row["waited"] = event.waited;
  row["partner"] = unless(!event.waited || event.partner < 0, event.partner);
  row["partner_us"] = event.partner_us;
  return row;
}

nb::dict dict_of(const Recorded& recorded) {
  const tutti_record& head = recorded.head;
  const tutti_origin& origin = head.origin;
  char job[17];
  std::snprintf(job, sizeof job, "%08llx", static_cast<unsigned long long>(head.job >> 32));
  nb::dict row;
  row["job"] = std::string(job);
  row["rank"] = head.rank;
  row["size"] = head.size;
  row["pid"] = head.pid;
  row["processes"] = head.processes;
  row["program"] = bounded(head.program, sizeof head.program);
  row["node"] = bounded(origin.node, sizeof origin.node);
  row["clock"] = origin.clock;
  row["monotonic"] = origin.monotonic_ns;
  row["realtime"] = origin.realtime_ns;
  row["program_begin"] = origin.program_begin;
  row["program_end"] = origin.program_end;
  row["other_version"] = head.signature != TUTTI_MPI_TABLE_SIGNATURE;
  row["maps"] = nb::bytes(recorded.maps.data(), recorded.maps.size());
  nb::list events;
  for (const Event& event : tutti::roll::events_of(recorded)) events.append(dict_of(event));
  row["events"] = events;
  return row;
}

/// What a recorder's file holds; a text that says why it is none.
nb::object recorded_in_file(const nb::bytes& file) {
  auto recorded = std::make_unique<Recorded>();
  std::string why;
  const std::string text(static_cast<const char*>(file.data()), file.size());
  if (!tutti::roll::read_recorded(text, recorded.get(), &why)) return nb::cast(why);
  return dict_of(*recorded);
}

/// The same of all ranks that have records in these segments (descriptors in /proc).
nb::list recorded_in_segments(const std::vector<std::string>& paths) {
  nb::list out;
  auto recorded = std::make_unique<Recorded>();
  for (const std::string& path : paths) {
    const auto node = tutti::shm::RecordsFromOutside::open(path.c_str());
    for (std::uint32_t local = 0; node && local < node->ranks(); ++local) {
      *recorded = {};
      const auto& record = *reinterpret_cast<const tutti_record*>(node->record(local));
      if (tutti::roll::read_recorded(record, recorded.get())) out.append(dict_of(*recorded));
    }
  }
  return out;
}

}  // namespace

void bind_trace(nb::module_& module) {
  module.def("recorded_in_file", &recorded_in_file);
  module.def("recorded_in_segments", &recorded_in_segments);
}
