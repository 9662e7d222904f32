// Large messages by multicast, which MCAST-2007 leaves open: windows of datagrams, repaired
// one-sided around the paper's ring.
//
// A message is cast in groups of ReliableRing::kGroup fragments. Per group a member
//
//   settles  it when no datagram of it can still come: it has all of them; or it has seen one of a
//            group further on, or the last one; or the member before it says so;
//   asks     the member before it, in one word, for the fragments that it lacks then (mostly none).
//            These come by puts only: whatever the multicast still brings of them is dropped, so
//            that nothing is written to its memory once it has left;
//   serves   the member behind it: puts what that one has asked for, as soon as it has it itself.
//            Then tells it in a word what has been put.
//
// Nobody waits for a timeout: the root has settled what it has cast, and tells the member behind
// it; and so on around the ring, also where nothing at all gets through. A member stays until the
// one behind it has everything, and nobody else waits for a late one.
//
// So that nothing overruns, the root casts only so far ahead of what the others have settled. They
// report that up a binomial tree around the root, whose branches are the chords of the ring. It is
// advice: who has not reported in time (`patience`) is not waited for any more and gets by puts
// what it then loses. With `pace` the root sends no faster than so many megabytes a second.
//
// Several blocks, each with a root of its own, are cast one after the other in the same way: a root
// begins when the block before its own is settled here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/algorithm.hpp"
#include "team/multicast.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {

/// Blocks that lie behind each other, of equal size but for the last one. The root of block b is
/// member `root` + b; there are no more blocks than members.
struct CastBlocks {
  std::byte* base = nullptr;
  std::size_t bytes = 0;  // of a block
  std::size_t total = 0;  // of all of them
  int root = 0;           // of the first one
};

class CastWindows {
 public:
  static constexpr int kMostWindow = 12 * ReliableRing::kGroup;  // datagrams
  /// The parameters of every algorithm that casts in windows.
  struct Pacing {
    std::int64_t window = 192;       // datagrams under way
    std::int64_t pace = 0;           // MB/s; 0: as fast as they go
    std::int64_t patience = 100000;  // us until somebody who says nothing is asked
  };
  static const ParameterList kPacing;

  /// Stream items of a ticket for such a message: its groups.
  static std::uint64_t groups(std::size_t block_bytes, std::size_t total,
                              std::size_t datagram_bytes) noexcept;

  /// After Team::open_multicast(). `c` and `blocks` outlive it.
  CastWindows(Collective& c, const CastBlocks& blocks, Pacing p) noexcept;
  ~CastWindows();
  CastWindows(const CastWindows&) = delete;
  CastWindows& operator=(const CastWindows&) = delete;

  FramePool& frames() noexcept { return c_.team.frames(); }
  /// Between Collective::enter and finish, in the collective's turn. On success all blocks are
  /// here, and nobody will write to them or read them any more.
  Task run() noexcept;

 private:
  /// Groups are counted from 0 within the message.
  using Group = std::uint64_t;
  using Bits = std::uint32_t;  // fragments of a group
  static constexpr Group kGroups = ReliableRing::kGroups;

  // ---- what a message consists of
  Group number(Group g) const noexcept { return c_.ticket().first_item + g; }
  int root_of(Group g) const noexcept;
  bool own(Group g) const noexcept { return g >= own_begin_ && g < own_end_; }
  std::size_t end_of_block(std::uint64_t block) const noexcept;
  std::uint64_t fragments_of(Group g) const noexcept;
  std::uint64_t first_fragment(Group g) const noexcept;
  Bits all_of(Group g) const noexcept { return (Bits{1} << fragments_of(g)) - 1; }
  std::size_t offset(Group g, int fragment) const noexcept;
  std::size_t bytes(Group g, int fragment, int count) const noexcept;
  Bits had(Group g) const noexcept;

  // ---- the steps; each does what it can at present
  Status cast() noexcept;
  Status cast_group(Group g) noexcept;
  void take_casts() noexcept;
  void accept(const MulticastPacket& packet) noexcept;
  void settle(std::uint64_t granted) noexcept;
  Status ask() noexcept;
  void take_puts() noexcept;
  void advance() noexcept;
  Status serve() noexcept;
  Status serve_group(Group g, bool* served) noexcept;
  Status put(Group g, Bits fragments) noexcept;
  Status report() noexcept;

  Status step() noexcept;
  Engine::Reached news(std::uint64_t told, std::uint64_t arrivals) noexcept;
  bool over() const noexcept {
    return complete_ == groups_ && served_ == groups_ && cast_ == own_end_;
  }

  // ---- reports
  int reader_of(Group settled) const noexcept;
  bool may_cast(Group g) noexcept;
  bool children_have_settled(int place, Group settled) noexcept;

  Collective& c_;
  const CastBlocks& blocks_;
  Multicast& multicast_;
  ReliableRing ring_;
  const std::size_t fragment_;
  const std::uint64_t block_fragments_;
  const Group block_groups_;
  const Group groups_;
  const Group own_begin_, own_end_;
  const Group window_;   // nominal, in groups: the same on all members
  const Group quarter_;  // of it: so often is reported
  Group ahead_ = 1;      // what the receives hold of it
  const std::int64_t pace_;
  const std::uint64_t patience_ns_;

  std::uint64_t moves_ = 0;    // changes of any of what follows
  Group seen_ = 0;             // groups below can get no more datagrams, as datagrams tell
  Group settled_ = 0;          // ... for whatever reason
  Group asked_ = 0;            // groups below have been asked for
  Group complete_ = 0;         // groups below are here
  Group cast_ = 0;             // own groups below have been cast
  Group told_ = 0;             // groups below: the one behind knows that they are settled here
  Group served_ = 0;           // groups below: the one behind has them
  Bits had_[kGroups] = {};     // from complete_ on
  Bits wanted_[kGroups] = {};  // asked for, likewise
  Bits given_[kGroups] = {};   // to the one behind, from served_ on
  Group next_report_ = 0;      // boundaries below have been reported
  // By chord: what was reported, and one, when that was waited for in vain.
  std::uint64_t given_up_[Inbox::kMaxRounds] = {};
  bool stalled_ = false;           // the root waits for reports
  std::uint64_t deadline_ns_ = 0;  // of what the root waits for; 0: nothing
  std::uint64_t missed_ns_ = 0;    // since when a report has been missing
  std::uint64_t next_cast_ns_ = 0;
  Region region_;  // the own blocks, for the one before, once something is asked for
  bool exposed_ = false;
  Remote window_behind_;  // the blocks of the one behind
  bool attached_ = false;
  Completion sent_;
};

inline constexpr ParameterList CastWindows::kPacing = parameters_of<CastWindows::Pacing>(
    {{&CastWindows::Pacing::window, "window", "datagrams", ReliableRing::kGroup,
      CastWindows::kMostWindow, "window: 24 to 288 datagrams"},
     {&CastWindows::Pacing::pace, "pace", "MB/s", 0, 1'000'000, "pace: 1 to 1000000 MB/s"},
     {&CastWindows::Pacing::patience, "patience", "us", 0, 60'000'000,
      "patience: 1 to 60000000 us"}});

}  // namespace tutti
