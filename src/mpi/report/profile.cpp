#include "mpi/report/profile.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "mpi/generated/function_index.h"
#include "mpi/record/events.hpp"
#include "select/online.hpp"

namespace tutti::report {
namespace {

/// Of the splitmix64 generator (Steele, Lea, Flood: OOPSLA 2014).
std::uint64_t scattered(std::uint64_t number) noexcept {
  number += 0x9e3779b97f4a7c15u;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
  number = (number ^ number >> 27) * 0x94d049bb133111ebu;
  return number ^ number >> 31;
}

bool sends_messages(std::uint32_t function) {
  static const auto all = [] {
    std::array<bool, TUTTI_MPI_FUNCTION_COUNT> found{};
    for (std::uint32_t i = 0; i < found.size(); ++i)
      found[i] = roll::is_message(roll::function_name(i));
    return found;
  }();
  return function < all.size() && all[function];
}

/// The row of a communicator that messages have used; nullptr: its collectives have not.
const tutti_comm_row* row_of_handle(const tutti_record& record, std::uint64_t handle) noexcept {
  const auto found = std::ranges::find_if(record.comms, [handle](const tutti_comm_row& row) {
    return row.id != 0 && row.handle == handle;
  });
  return found != std::end(record.comms) ? found : nullptr;
}

/// The bytes that a collective's event has; UINT64_MAX: not known. A barrier has none.
std::uint64_t bytes_of(const tutti_event& event, Coll coll) noexcept {
  const bool known = event.bytes < TUTTI_BYTES_LATER && coll != Coll::barrier;
  return known ? event.bytes : UINT64_MAX;
}

}  // namespace

bool is_kept(std::uint64_t number, std::uint32_t halved) noexcept {
  return halved == 0 || scattered(number) >> (64 - halved) == 0;
}

Profile::Profile(std::size_t room) : room_(std::max<std::size_t>(room, 2)) {}

void Profile::add(const tutti_record& record, const tutti_event& event) {
  SiteKey key;
  key.site = event.site;
  key.function = event.of & 0xffff;
  const std::uint64_t ns =
      event.begin_ns != 0 && event.end_ns > event.begin_ns ? event.end_ns - event.begin_ns : 0;
  const int index = roll::row_of(event, &key.nonblocking);
  if (index < 0) {
    const tutti_comm_row* const row =
        sends_messages(key.function) ? row_of_handle(record, event.bytes) : nullptr;
    if (row != nullptr) key.comm = profile_.comms[comm_of(*row)].id;
    count(key, UINT64_MAX, ns);
    return;
  }
  const tutti_comm_row& row = record.comms[index];
  const auto coll = static_cast<Coll>(event.what & 0xff);
  key.coll = static_cast<std::int16_t>(coll);
  const std::uint64_t bytes = bytes_of(event, coll);
  if (bytes != UINT64_MAX) key.size_class = static_cast<std::int16_t>(Online::class_of(bytes));
  const bool its_own = row.id != 0 && event.end_ns >= row.since_ns;
  if (its_own) key.comm = row.id;
  const std::uint32_t site = count(key, bytes, ns);
  if (!its_own || key.nonblocking) return;
  const bool waited = (event.of & TUTTI_EVENT_WAITED) != 0;
  keep(row, key,
       {event.of >> 32, event.begin_ns, event.end_ns, site,
        static_cast<std::int32_t>(event.what >> 32), waited ? event.partner : TUTTI_NO_RANK});
}

std::uint32_t Profile::count(const SiteKey& key, std::uint64_t bytes, std::uint64_t ns) {
  const auto place = static_cast<std::uint32_t>(profile_.sites.size());
  const auto [found, is_new] = places_.try_emplace(key, place);
  if (is_new) profile_.sites.push_back({key, {}, {}});
  SiteCounts& counts = profile_.sites[found->second].counts;
  counts.calls += 1;
  counts.ns += ns;
  counts.longest_ns = std::max(counts.longest_ns, ns);
  if (bytes == UINT64_MAX) return found->second;
  counts.bytes += bytes;
  counts.least = std::min(counts.least, bytes);
  counts.most = std::max(counts.most, bytes);
  return found->second;
}

std::uint32_t Profile::comm_of(const tutti_comm_row& row) {
  const auto place = static_cast<std::uint32_t>(profile_.comms.size());
  const auto [found, is_new] = comms_.try_emplace(row.id, place);
  if (is_new) {
    std::string name(row.name, strnlen(row.name, sizeof row.name));
    profile_.comms.push_back({row.id, row.size, row.rank, std::move(name)});
  }
  return found->second;
}

void Profile::keep(const tutti_comm_row& row, const SiteKey& key, const Arrival& arrival) {
  const bool sized = !has_parcels(static_cast<Coll>(key.coll));
  const auto place = static_cast<std::uint32_t>(profile_.kinds.size());
  const auto [found, is_new] =
      kinds_.try_emplace({row.id, key.coll, sized ? key.size_class : SiteKey::kNone}, place);
  if (is_new) profile_.kinds.push_back({comm_of(row), 0, 0, {}});
  KindArrivals& kind = profile_.kinds[found->second];
  kind.collectives += 1;
  if (!is_kept(arrival.number, kind.halved)) return;
  kind.kept.push_back(arrival);
  if (++kept_ > room_) thin();
}

/// Where there are most.
void Profile::thin() {
  KindArrivals& kind = *std::ranges::max_element(
      profile_.kinds, {}, [](const KindArrivals& one) { return one.kept.size(); });
  kind.halved += 1;
  kept_ -= std::erase_if(
      kind.kept, [&kind](const Arrival& arrival) { return !is_kept(arrival.number, kind.halved); });
}

}  // namespace tutti::report
