// The cache lines of a coherent node in virtual time: who has a copy, and how long another one
// takes.
//
// A line has one writer at a time. Whoever wants to read it asks where it was written last, and is
// served after those that asked before. What a copy takes depends on how far the two cores are from
// each other: below one last-level cache, in one NUMA domain, in one package, or beyond; and on who
// else uses the ways out of a cache, into it, and between packages. A writer waits until the copies
// of others are gone, in its store buffer: its processor goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fabric/sim/network.hpp"
#include "fabric/sim/way.hpp"
#include "topo/locality.hpp"

namespace tutti::sim {

class Lines {
 public:
  /// `ranks_per_node`: of all nodes. Rank r of a node runs on core r; `scattered`: ranks are dealt
  /// out to the packages in turn, of which there are two at least.
  Lines(const CoherentNode& node, int ranks_per_node, bool scattered = false)
      : node_(node), each_(ranks_per_node), scattered_(scattered) {}

  bool modelled() const noexcept { return node_.l3 != 0; }

  /// `writer` stores into the line at `time`; gives when the store is visible to who asks then.
  Time write(const void* address, int writer, Time time);
  /// The same of all lines of [begin, begin + bytes), which nobody is told of.
  void write_all(const void* begin, std::size_t bytes, int writer, Time time);
  /// `reader` wants the line at `time`; gives when it has a copy.
  Time read(const void* address, int reader, Time time) {
    const Copy* const copy = copy_for(line_of(address), reader, time);
    return copy == nullptr ? time : std::max(time, copy->since);
  }
  /// The same. True the first time that somebody asks for this copy before it is there.
  bool awaits(const void* address, int reader, Time time, Time* has);
  /// The same of all lines of [begin, begin + bytes): asked for one behind the other.
  Time read_all(const void* begin, std::size_t bytes, int reader, Time time);

  /// Copies that were asked for so far: by all, and by the rank that asked for most.
  std::uint64_t copies() const noexcept { return copies_; }
  /// Of them, those that came from another package.
  std::uint64_t far_copies() const noexcept { return far_copies_; }
  std::uint64_t most_by_one() const noexcept {
    return reads_.empty() ? 0 : *std::max_element(reads_.begin(), reads_.end());
  }
  void forget_counts() noexcept {
    copies_ = far_copies_ = 0;
    reads_.clear();
  }
  /// What a copy takes between the cores of two ranks.
  Time distance(int a, int b) const noexcept;
  Locality locality_of(int rank) const noexcept;

 private:
  struct Copy {
    std::int32_t rank;
    Time begin, since;  // when it is asked for, and there
    bool awaited;
  };
  struct Line {
    std::int32_t writer =
        -1;            // -1: nobody has written it; memory has it, and costs what the line does
    Time visible = 0;  // what was written last
    // The latest run of readers that are served without a pause.
    Time busy = 0, free = 0;
    std::vector<Copy> copies;
  };
  int core_of(int rank) const noexcept;
  /// When a line that is handed out at `time` is through all ways between two ranks.
  Time pass_ways(int from, int to, Time time);
  /// nullptr: the reader has written it itself.
  Copy* copy_for(Line& line, int reader, Time time);
  Line& line_of(const void* address) {
    return lines_[reinterpret_cast<std::uintptr_t>(address) / kLine];
  }

  static constexpr std::uintptr_t kLine = 64;
  const CoherentNode node_;
  const int each_;
  const bool scattered_;
  std::unordered_map<std::uintptr_t, Line> lines_;
  std::uint64_t copies_ = 0, far_copies_ = 0;
  std::vector<std::uint64_t> reads_;  // by rank
  std::vector<Time> last_;            // by rank: when its last store is visible
  // By node and cache; by node and the two packages.
  std::unordered_map<std::int64_t, Way> out_of_, into_, between_;
};

}  // namespace tutti::sim
