// A message that the root of a broadcast casts in fragments, and what has come of it: for the
// broadcasts by multicast that acknowledge.
#pragma once

#include <cstdint>

#include "coll/algorithm.hpp"
#include "team/multicast.hpp"

namespace tutti {

class Casts {
 public:
  /// Of the algorithms that acknowledge.
  struct Timeout {
    std::int64_t timeout = 1000;  // us until something counts as lost
  };
  static const ParameterList kTimeout;

  /// After Team::open_multicast(). Outlives it.
  explicit Casts(Collective& c) noexcept;

  /// Distance from the root, and the member at that distance.
  int place() const noexcept { return place_; }
  int member(int place) const noexcept;
  bool complete() const noexcept { return had_ == (std::uint64_t{1} << fragments_) - 1; }
  FramePool& frames() noexcept { return c_.team.frames(); }

  /// Casts all fragments. Who has them all.
  Status cast() noexcept;
  /// Takes what the multicast brings until the message is there, or until `deadline_ns`.
  Task take_all() noexcept { return take_until(kNever); }
  Task take_until(std::uint64_t deadline_ns) noexcept;

  /// The root keeps the message in its inbox, for as long as the epoch's blocks are.
  Status save() noexcept;
  /// Reads what is missing from there. `*saved` is false where the root has not come so far yet.
  Task fetch(bool* saved) noexcept;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::size_t offset(int i) const noexcept { return static_cast<std::size_t>(i) * fragment_; }
  std::size_t bytes(int i) const noexcept;
  Status take() noexcept;

  Collective& c_;
  Multicast& multicast_;
  const int place_;
  const std::size_t fragment_;
  const int fragments_;
  std::uint64_t had_ = 0;  // by fragment
};

inline constexpr ParameterList Casts::kTimeout = parameters_of<Casts::Timeout>(
    {{&Casts::Timeout::timeout, "timeout", "us", 1, 10'000'000, "timeout: 1 to 10000000 us"}});

}  // namespace tutti
