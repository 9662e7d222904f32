#include "offload/mapping.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace tutti::offload {
namespace {

bool parse_number(const char*& at, const char* end, int* out) {
  const auto [next, error] = std::from_chars(at, end, *out);
  if (error != std::errc{} || *out < 1) return false;
  at = next;
  return true;
}

}  // namespace

Status parse_ratio(const std::string& text, Ratio* out, std::string* message) {
  const char* at = text.data();
  const char* const end = at + text.size();
  Ratio ratio;
  bool good = parse_number(at, end, &ratio.processors);
  if (good && at != end) good = *at++ == ':' && parse_number(at, end, &ratio.per) && at == end;
  if (!good) {
    *message = "TUTTI_DCP is '" + text +
               "'; expected a number of dedicated processors for each node (1), or a ratio to the "
               "program's processes (1:4)";
    return Status::error(Code::invalid_argument, "TUTTI_DCP");
  }
  *out = ratio;
  return Status::success();
}

std::vector<int> processors_of_nodes(const Ratio& ratio, const std::vector<int>& apps) {
  std::vector<int> result;
  long long all = 0;
  for (const int count : apps) all += count;
  if (ratio.per == 0) {
    result.assign(apps.size(), ratio.processors);
    return result;
  }
  const long long wanted = (all * ratio.processors + ratio.per - 1) / ratio.per;
  long long seen = 0, given = 0;
  for (const int count : apps) {
    seen += count;
    const long long until = all == 0 ? 0 : (seen * wanted + all - 1) / all;
    result.push_back(static_cast<int>(until - given));
    given = until;
  }
  return result;
}

Status processors_among(const Ratio& ratio, const std::vector<int>& processes,
                        std::vector<int>* out, bool* even, std::string* message) {
  long long all = 0, room = 0;
  for (const int count : processes) {
    all += count;
    room += count - 1;
  }
  if (room == 0) {
    *message =
        processes.size() == 1
            ? "dedicated processors cannot be taken from a job of one process"
            : "dedicated processors cannot be taken from a job with one process on each node";
    *message += "; start more (mpiexec -n), or leave --dcp-from-job out";
    return Status::error(Code::invalid_argument, "no process is left for the program");
  }
  const auto nodes = static_cast<long long>(processes.size());
  const long long whole = ratio.processors + ratio.per;
  const long long asked =
      ratio.per == 0 ? ratio.processors * nodes : (all * ratio.processors + whole - 1) / whole;
  const long long wanted = std::min(asked, room);
  std::vector<int> result;
  long long seen = 0, given = 0;
  for (const int count : processes) {
    seen += count;
    const long long until = (seen * wanted + all - 1) / all;
    const long long here = ratio.per == 0 ? ratio.processors : until - given;
    result.push_back(static_cast<int>(std::min<long long>(here, count - 1)));
    given += result.back();
  }
  // What a full node could not give comes from others.
  for (std::size_t node = 0; node < result.size() && ratio.per != 0; ++node) {
    const long long more = std::min<long long>(wanted - given, processes[node] - 1 - result[node]);
    result[node] += static_cast<int>(more);
    given += more;
  }
  *even =
      given == asked && (ratio.per == 0 || given * ratio.per == (all - given) * ratio.processors);
  *out = std::move(result);
  return Status::success();
}

std::vector<std::int32_t> map_apps(const std::vector<std::int32_t>& node_of, int apps) {
  const auto size = static_cast<std::int32_t>(node_of.size());
  const auto spread = [](const std::vector<std::int32_t>& from,
                         const std::vector<std::int32_t>& over, std::vector<std::int32_t>* out) {
    for (std::size_t i = 0; i < from.size(); ++i)
      (*out)[static_cast<std::size_t>(from[i])] = over[i * over.size() / from.size()];
  };
  std::map<std::int32_t, std::vector<std::int32_t>> apps_on, processors_on;
  std::vector<std::int32_t> processors, alone;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const std::int32_t node = node_of[static_cast<std::size_t>(rank)];
    (rank < apps ? apps_on : processors_on)[node].push_back(rank);
    if (rank >= apps) processors.push_back(rank);
  }
  std::vector<std::int32_t> result(static_cast<std::size_t>(apps), -1);
  for (const auto& [node, here] : apps_on) {
    if (const auto found = processors_on.find(node); found != processors_on.end()) {
      spread(here, found->second, &result);
    } else {
      alone.insert(alone.end(), here.begin(), here.end());
    }
  }
  if (!processors.empty()) spread(alone, processors, &result);
  return result;
}

}  // namespace tutti::offload
