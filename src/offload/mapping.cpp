#include "offload/mapping.hpp"

#include <charconv>
#include <map>

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
