#include "fabric/sim/lines.hpp"

namespace tutti::sim {

int Lines::core_of(int rank) const noexcept {
  const int local = rank % each_;
  if (!scattered_) return local;
  const int packages = std::max(2, (each_ + node_.package - 1) / node_.package);
  return local % packages * node_.package + local / packages;
}

Locality Lines::locality_of(int rank) const noexcept {
  if (!modelled()) return {};
  const int core = core_of(rank);
  return {static_cast<std::int16_t>(core / node_.package),
          static_cast<std::int16_t>(core / node_.numa),
          static_cast<std::int16_t>(core / node_.l3 * node_.l3)};
}

Time Lines::distance(int a, int b) const noexcept {
  const int one = core_of(a), other = core_of(b);
  if (one == other) return 0;
  if (one / node_.l3 == other / node_.l3) return node_.line_l3;
  if (one / node_.numa == other / node_.numa) return node_.line_numa;
  return one / node_.package == other / node_.package ? node_.line_package : node_.line_far;
}

namespace {

template <class Value>
Value& of_rank(std::vector<Value>& values, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (values.size() <= index) values.resize(index + 1);
  return values[index];
}

}  // namespace

Time Lines::write(const void* address, int writer, Time time) {
  Line& line = line_of(address);
  // Who asks later finds the new value.
  const auto stale = [time](const Copy& copy) { return copy.begin <= time; };
  Time farthest = line.writer >= 0 ? distance(line.writer, writer) : 0;
  for (const Copy& copy : line.copies)
    if (stale(copy)) farthest = std::max(farthest, distance(copy.rank, writer));
  // Readers that are being served still get the old value.
  if (farthest != 0) time = (time < line.busy ? time : std::max(time, line.free)) + farthest;
  std::erase_if(line.copies, stale);
  // A processor's stores become visible in their order.
  Time& last = of_rank(last_, writer);
  last = std::max({time, last, line.visible});
  line.writer = writer;
  line.visible = last;
  if (line.busy <= last) line.busy = line.free = last;
  return last;
}

void Lines::write_all(const void* begin, std::size_t bytes, int writer, Time time) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kLine * kLine;
  const auto end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  for (std::uintptr_t at = first; at < end; at += kLine)
    write(reinterpret_cast<const void*>(at), writer, time);
}

Lines::Copy* Lines::copy_for(Line& line, int reader, Time time) {
  if (line.writer == reader) return nullptr;
  for (Copy& copy : line.copies) {
    if (copy.rank == reader) return &copy;
  }
  time = std::max(time, line.visible);
  Time begin = time;
  if (time + node_.serve > line.busy) {  // not in front of those who, ahead of us, ask for it later
    begin = std::max(time, line.free);
    if (begin > line.free) line.busy = begin;
    line.free = begin + node_.serve;
  }
  if (line.writer >= 0) begin = pass_ways(line.writer, reader, begin);
  const Time takes = line.writer < 0 ? node_.line_numa : distance(line.writer, reader);
  line.copies.push_back({reader, begin, begin + takes, false});
  ++copies_;
  if (line.writer >= 0 && core_of(line.writer) / node_.package != core_of(reader) / node_.package)
    ++far_copies_;
  ++of_rank(reads_, reader);
  return &line.copies.back();
}

Time Lines::pass_ways(int from, int to, Time time) {
  const int writer = core_of(from), reader = core_of(to);
  const int cache = writer / node_.l3, to_cache = reader / node_.l3;
  if (cache == to_cache) return time;
  const std::int64_t node = std::int64_t{from / each_} << 32;
  if (node_.way_cache != 0) time = out_of_[node | cache].pass(time, node_.way_cache);
  const int package = writer / node_.package, to_package = reader / node_.package;
  if (package != to_package && node_.way_package != 0)
    time = between_[node | package << 16 | to_package].pass(time, node_.way_package);
  return node_.way_cache != 0 ? into_[node | to_cache].pass(time, node_.way_cache) : time;
}

bool Lines::awaits(const void* address, int reader, Time time, Time* has) {
  Copy* const copy = copy_for(line_of(address), reader, time);
  *has = copy == nullptr ? time : std::max(time, copy->since);
  if (*has == time || copy->awaited) return false;
  return copy->awaited = true;
}

Time Lines::read_all(const void* begin, std::size_t bytes, int reader, Time time) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kLine * kLine;
  const auto end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  Time last = time;
  for (std::uintptr_t at = first; at < end; at += kLine) {
    const std::uint64_t before = copies_;
    last = std::max(last, read(reinterpret_cast<const void*>(at), reader, time));
    if (copies_ != before) time += node_.follow;
  }
  return last;
}

}  // namespace tutti::sim
