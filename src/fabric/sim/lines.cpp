#include "fabric/sim/lines.hpp"

namespace tutti::sim {

Time Lines::distance(int a, int b) const noexcept {
  const int one = a % each_, other = b % each_;
  if (one == other) return 0;
  if (one / node_.l3 == other / node_.l3) return node_.line_l3;
  if (one / node_.numa == other / node_.numa) return node_.line_numa;
  return one / node_.package == other / node_.package ? node_.line_package : node_.line_far;
}

Time Lines::write(const void* address, int writer, Time time) {
  Line& line = line_of(address);
  Time farthest = line.writer >= 0 ? distance(line.writer, writer) : 0;
  for (const Copy& copy : line.copies) farthest = std::max(farthest, distance(copy.rank, writer));
  // Readers that are being served still get the old value.
  const Time visible = farthest == 0 ? time : std::max(time, line.free) + farthest;
  line.writer = writer;
  line.free = visible;
  line.copies.clear();
  return visible;
}

Lines::Copy* Lines::copy_for(Line& line, int reader, Time time) {
  if (line.writer == reader) return nullptr;
  for (Copy& copy : line.copies) {
    if (copy.rank == reader) return &copy;
  }
  const Time begin = std::max(time, line.free);
  line.free = begin + node_.serve;
  const Time takes = line.writer < 0 ? node_.line_numa : distance(line.writer, reader);
  line.copies.push_back({reader, begin + takes, false});
  ++copies_;
  const auto index = static_cast<std::size_t>(reader);
  if (reads_.size() <= index) reads_.resize(index + 1);
  ++reads_[index];
  return &line.copies.back();
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
