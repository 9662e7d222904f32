// The mapping f: APP -> DCP (CDCP-2008, section IV-A). Pure functions; every process computes the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tutti::offload {

/// What TUTTI_DCP asks for: `processors` for each `per` of the program's processes, or, where `per`
/// is 0, for each node.
struct Ratio {
  int processors = 1;
  int per = 0;
};

/// Parses "1", "2" (a node) or "1:4" (DCPs to APPs). On failure `*message` says in one line what
/// would be right.
Status parse_ratio(const std::string& text, Ratio* out, std::string* message);

/// How many DCPs each node gets, evenly; `apps` by node. Together at least one.
std::vector<int> processors_of_nodes(const Ratio& ratio, const std::vector<int>& apps);

/// How many of each node's processes become DCPs where these are taken from the job
/// (--dcp-from-job): as few as the ratio allows, evenly, and never all of a node's. `even` says
/// whether the ratio divides the processes without rest. Where none is left for the program, or
/// none to be a DCP, `*message` says so in one line.
Status processors_among(const Ratio& ratio, const std::vector<int>& processes,
                        std::vector<int>* out, bool* even, std::string* message);

/// The job ranks of the DCPs that serve each APP. `node_of`: of every job rank; the first `apps`
/// are APPs, the rest DCPs. An APP is served on its own node where there is a DCP, evenly; the APPs
/// of nodes without one are spread over all.
std::vector<std::int32_t> map_apps(const std::vector<std::int32_t>& node_of, int apps);

}  // namespace tutti::offload
