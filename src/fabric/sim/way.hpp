// A way that cache lines take one after the other: out of a cache, into one, or between packages.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "fabric/sim/network.hpp"

namespace tutti::sim {

/// Each line occupies it for a while. A line goes in the first stretch of time that has room left
/// from when it wants to go. Ranks are not simulated in the order of time, and so it hardly matters
/// which of them asks first.
class Way {
 public:
  /// When a line goes that wants to at `time`. `each`: how long a line occupies the way, always the
  /// same.
  Time pass(Time time, Time each) {
    const Time length = kLines * each, stretch = first_with_room(time / length);
    Time& lines = lines_[stretch];
    time = std::max(time, stretch * length + lines * each);
    if (++lines == kLines) full_[stretch] = stretch + 1;
    return time;
  }

 private:
  static constexpr Time kLines = 16;  // of a stretch

  Time first_with_room(Time stretch) {
    Time found = stretch;
    for (auto next = full_.find(found); next != full_.end(); next = full_.find(found))
      found = next->second;
    // Who comes later need not go through all of these again.
    for (auto next = full_.find(stretch); next != full_.end(); next = full_.find(stretch)) {
      stretch = next->second;
      next->second = found;
    }
    return found;
  }

  std::unordered_map<Time, Time> lines_;  // by stretch
  std::unordered_map<Time, Time> full_;   // stretches without room: a later one that may have some
};

}  // namespace tutti::sim
