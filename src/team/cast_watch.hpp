// Whether a team's broadcasts by multicast still gain anything: noticed where they do not, agreed
// by all members, and tried again later.
//
// The ring repairs what a multicast has lost, one member after the other: a run of lost members
// that is longer than a tree of them is deep makes the broadcast slower than the tree. Such a
// broadcast is *dear*; the member at which the run becomes that long knows it, and nobody else.
//
// So the members hold a survey with every 256th broadcast (at first sooner): the worst of what they
// have seen since the last one. What it gives is the same on all members, and
// holds from the next broadcast on. Nothing else decides, so no decision can differ.
//
// - A root whose broadcasts are dear at some member, half of them or more, is left: its messages go
//   by the tree. With two such roots the whole team leaves multicast.
// - After some surveys that are not held (4, then twice as many each time) the last 16 broadcasts
//   before the next one are cast again, and that one decides anew.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/fabric.hpp"

namespace tutti {

/// Of all teams of a process, for the report.
struct CastTotals {
  std::uint64_t broadcasts = 0;  // that were cast
  std::uint64_t by_tree = 0;     // that went by the tree instead
  std::uint64_t fragments = 0;   // that this process should have received by multicast
  std::uint64_t repaired = 0;    // of these, those that came by the ring
  std::uint64_t left = 0;        // surveys that left multicast, for a root or a team
  std::uint64_t resumed = 0;     // ... that took it up again
};

/// What a survey brings together: of all members the union, and the maximum.
struct CastSurvey {
  static constexpr int kNumberAt = 40;          // bit of the survey's number in its word
  static constexpr std::uint32_t kClasses = 8;  // roots, by their number modulo this
  std::uint32_t dear = 0;   // a bit for each class with a root whose broadcasts are dear
  std::uint32_t share = 0;  // of the worst root's broadcasts, of 255, that were dear ...
  std::uint32_t root = 0;   // ... and which it is

  void merge(const CastSurvey& other) noexcept;
  /// A word that grows with `number`, from 1.
  std::uint64_t word(std::uint64_t number) const noexcept;
  static CastSurvey of(std::uint64_t word) noexcept;
};

/// Of one team, on one member. Broadcasts are numbered in the team's order, from 0.
class CastWatch {
 public:
  static constexpr std::uint64_t kPeriod = 256;  // broadcasts between two surveys, at last
  static constexpr std::uint64_t kFirst = 32;    // before the first one
  static constexpr std::uint64_t kTrial = 16;    // that are cast before one of a trial
  static constexpr std::uint64_t kMostSurveys = std::uint64_t{1} << 22;  // then all stays as it is
  static constexpr std::uint32_t kHalf = 128;                            // of CastSurvey::share

  /// `totals` outlives it.
  explicit CastWatch(CastTotals& totals) noexcept : totals_(totals) {}

  /// Surveys that are over before this broadcast decides how it goes; and whether one ends it.
  static std::uint64_t surveys_before(std::uint64_t number) noexcept;
  static bool is_surveyed(std::uint64_t number) noexcept {
    return surveys_before(number + 1) != surveys_before(number);
  }
  /// How many are over here. A broadcast awaits surveys_before() of them before casts().
  const Word& surveys() const noexcept { return surveys_; }

  /// Whether this broadcast is cast; else it goes by the tree. The same on all members.
  bool casts(std::uint64_t number, int root) const noexcept;

  /// A broadcast was cast. `run`: the longest run of members up to this one that was repaired;
  /// `tree`: the longest that costs no more than a tree; of the fragments `repaired` came by the
  /// ring.
  void seen(int root, int run, int tree, int fragments, int repaired) noexcept;
  void went_by_tree() noexcept { ++totals_.by_tree; }

  /// What this member has seen since the last survey.
  CastSurvey own() const noexcept;
  /// Ends the survey behind broadcast `number`, with what all members have seen; nullptr: none was
  /// held, because nothing was cast.
  void conclude(std::uint64_t number, const CastSurvey* all) noexcept;

  /// What has been agreed: whether the team has left multicast, and how many roots have.
  bool has_left() const noexcept { return states_[state_of(now_)].all; }
  int roots_left() const noexcept { return states_[state_of(now_)].count; }

 private:
  static constexpr std::uint64_t kStates = 4;  // broadcasts that are under way see one of the last
  static constexpr int kRoots = 8;             // that are left one by one, and looked at
  static constexpr std::uint32_t kLeast = 4;   // broadcasts of a root that say something
  static constexpr std::uint32_t kPauses = 4, kMostPauses = 64;  // surveys

  /// After so many surveys.
  struct State {
    bool all = false;
    int count = 0;
    std::array<std::int32_t, kRoots> roots{};
    std::uint32_t pause = 0, pauses = kPauses;  // surveys until the trial; in the next pause

    bool has(int root) const noexcept;
    bool anything_left() const noexcept { return all || count != 0; }
    void leave(int root) noexcept;
  };
  struct Root {
    std::int32_t root = -1;
    std::uint32_t casts = 0, dear = 0;

    std::uint32_t share() const noexcept { return 255 * dear / casts; }
  };

  static std::size_t state_of(std::uint64_t surveys) noexcept { return surveys % kStates; }
  void judge(State* state, const CastSurvey& all) noexcept;

  CastTotals& totals_;
  Word surveys_{0};
  std::uint64_t now_ = 0;  // the same
  std::array<State, kStates> states_{};
  std::array<Root, kRoots> seen_{};  // since the last survey: the first roots that cast, ...
  Root every_;                       // ... and all of them
};

}  // namespace tutti
